package servers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// superuser is the user of every server that we start.
const superuser = "yekbar"

// oldestPostgreSQL is the first major version that the tests hold for.
const oldestPostgreSQL = 15

var (
	postgresFolders = []string{
		"/usr/lib/postgresql/[1-9][0-9]/bin", // Debian, Ubuntu
		"/usr/pgsql-[1-9][0-9]/bin",          // the project's own RPMs
		"/usr/libexec/postgresql*",           // Alpine
		"/opt/homebrew/opt/postgresql@*/bin", "/usr/local/opt/postgresql@*/bin",
		"/usr/local/pgsql/bin",
	}
	majorVersion = regexp.MustCompile(`\(PostgreSQL\) ([0-9]+)`)
)

// findPostgreSQL returns the server's program; initdb lies beside it.
func findPostgreSQL() (string, error) {
	missing := &MissingError{Kind: KindPostgreSQL, What: "no program postgres in PATH or the usual folders", Package: "postgresql"}
	program, ok := find("postgres", postgresFolders...)
	if !ok {
		return "", missing
	}
	out, err := exec.Command(program, "--version").Output()
	if err != nil {
		return "", fmt.Errorf("%s --version: %w", program, err)
	}
	m := majorVersion.FindSubmatch(out)
	if m == nil {
		return "", fmt.Errorf("%s --version printed no version: %q", program, out)
	}
	if major, err := strconv.Atoi(string(m[1])); err != nil || major < oldestPostgreSQL {
		missing.What = fmt.Sprintf("%s is version %s, %d or later is needed", program, m[1], oldestPostgreSQL)
		return "", missing
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(program), "initdb")); err != nil {
		missing.What = "there is no initdb beside " + program
		return "", missing
	}
	return program, nil
}

func planPostgreSQL(f *folder, dir string, o Options) (plan, error) {
	program, err := findPostgreSQL()
	if err != nil {
		return plan{}, err
	}
	who, err := unprivileged("postgres")
	if err != nil {
		return plan{}, err
	}
	template, err := initPostgreSQL(f, program, who)
	if err != nil {
		return plan{}, err
	}
	password, err := os.ReadFile(filepath.Join(template, "password"))
	if err != nil {
		return plan{}, err
	}
	data := filepath.Join(dir, "data")
	if err := copyTree(filepath.Join(template, "data"), data); err != nil {
		return plan{}, err
	}
	port, err := freePort()
	if err != nil {
		return plan{}, err
	}
	settings := map[string]string{
		"listen_addresses":        "127.0.0.1",
		"port":                    strconv.Itoa(port),
		"unix_socket_directories": "", // a path below a deep folder may be too long for a socket
		"max_connections":         "200",
		// Ours never prepares a transaction; with 0 the server refuses it.
		"max_prepared_transactions": "0",
		"shared_buffers":            "64MB",
		// In the data folder, so that a SIGKILL leaves nothing in /dev/shm.
		"dynamic_shared_memory_type": "mmap",
		"log_line_prefix":            "%m [%p] ",
		"lc_messages":                "C",
	}
	if !o.Fsync {
		settings["fsync"] = "off"
		settings["full_page_writes"] = "off"
	}
	p := plan{
		account: who,
		program: program,
		stop:    []stopStep{{syscall.SIGINT, 15 * time.Second}, {syscall.SIGQUIT, 5 * time.Second}},
		// SIGQUIT is the immediate shutdown: it takes the children along.
		parentDeath: syscall.SIGQUIT,
		removed:     func() error { return removeSharedMemory(data) },
	}
	if o.Language != "" {
		locale, env, err := serverLocale(f, o.Language)
		if err != nil {
			return plan{}, err
		}
		settings["lc_messages"] = locale + ".UTF-8"
		p.env = append(p.env, env...)
	}
	maps.Copy(settings, o.Settings)
	p.args = []string{"-D", data}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		p.args = append(p.args, "-c", name+"="+settings[name])
	}
	p.url = (&url.URL{
		Scheme:   "postgres",
		User:     url.UserPassword(superuser, string(password)),
		Host:     fmt.Sprintf("127.0.0.1:%d", port),
		Path:     "/postgres",
		RawQuery: "sslmode=disable",
	}).String()
	p.ready = func(ctx context.Context) error { return pingPostgreSQL(ctx, p.url) }
	return p, nil
}

func initPostgreSQL(f *folder, program string, who account) (string, error) {
	key, err := programKey(program)
	if err != nil {
		return "", err
	}
	return f.template(KindPostgreSQL, fmt.Sprintf("%s %d 1", key, who.uid), func(dir string) error {
		password := secret()
		data := filepath.Join(dir, "data")
		handed := filepath.Join(dir, "initdb-password")
		if err := errors.Join(who.mkdir(data), who.writeFile(handed, password),
			os.WriteFile(filepath.Join(dir, "password"), []byte(password), 0o600)); err != nil {
			return err
		}
		cmd := who.command(dir, filepath.Join(filepath.Dir(program), "initdb"),
			"-D", data, "-U", superuser, "--pwfile", handed, "--auth=scram-sha-256",
			"--locale=C", "--encoding=UTF8", "--no-sync", "--no-instructions")
		return errors.Join(finish(cmd, initBound), os.Remove(handed))
	})
}

func pingPostgreSQL(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	return errors.Join(conn.PgConn().Exec(ctx, "SELECT 1").Close(), conn.Close(ctx))
}

// createPostgreSQL makes a database and returns its URL and how to drop it.
// It speaks the simple protocol, so it may go through a transaction pooler.
func createPostgreSQL(ctx context.Context, admin, name string) (string, func(context.Context) error, error) {
	u, err := parseURL(admin, "postgres", "postgresql")
	if err != nil {
		return "", nil, err
	}
	run := func(ctx context.Context, sql string) error {
		conn, err := pgx.Connect(ctx, admin)
		if err != nil {
			return err
		}
		return errors.Join(conn.PgConn().Exec(ctx, sql).Close(), conn.Close(ctx))
	}
	if err := run(ctx, "CREATE DATABASE "+name); err != nil {
		return "", nil, err
	}
	u.Path = "/" + name
	drop := func(ctx context.Context) error {
		return run(ctx, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)")
	}
	return u.String(), drop, nil
}

// parseURL parses a URL that may hold a password, which net/url would print.
func parseURL(text string, schemes ...string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || !slices.Contains(schemes, u.Scheme) {
		return nil, fmt.Errorf("not a URL of the form %s://user:password@host:port/database", strings.Join(schemes, ":// or "))
	}
	return u, nil
}
