package servers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func findPgBouncer() (string, error) {
	program, ok := find("pgbouncer", "/usr/sbin", "/usr/bin", "/usr/local/bin", "/opt/homebrew/bin")
	if !ok {
		return "", &MissingError{Kind: KindPgBouncer, What: "no program pgbouncer in PATH or the usual folders", Package: "pgbouncer"}
	}
	return program, nil
}

func planPgBouncer(dir string, o Options) (plan, error) {
	program, err := findPgBouncer()
	if err != nil {
		return plan{}, err
	}
	if o.Language != "" {
		return plan{}, errors.New("servers: PgBouncer speaks English only")
	}
	who, err := unprivileged("postgres")
	if err != nil {
		return plan{}, err
	}
	upstream, err := parseURL(o.Upstream, "postgres", "postgresql")
	if err != nil {
		return plan{}, fmt.Errorf("PgBouncer's upstream: %w", err)
	}
	upstreamPort := upstream.Port()
	if upstreamPort == "" {
		upstreamPort = "5432"
	}
	port, err := freePort()
	if err != nil {
		return plan{}, err
	}
	home := filepath.Join(dir, "data")
	config, users := filepath.Join(home, "pgbouncer.ini"), filepath.Join(home, "users.txt")
	settings := map[string]string{
		"listen_addr":     "127.0.0.1",
		"listen_port":     strconv.Itoa(port),
		"unix_socket_dir": "", // a path below a deep folder may be too long for a socket
		"pool_mode":       "transaction",
		"auth_type":       "scram-sha-256",
		"auth_file":       users,
		"admin_users":     upstream.User.Username(),
		"max_client_conn": "500",
		// The pool is per database, so many tests at once share the server's 200.
		"default_pool_size": "20",
		// A dropped database's connections shall not be missed for long.
		"server_login_retry": "1",
		// lib/pq and JDBC send it always; users set this everywhere.
		"ignore_startup_parameters": "extra_float_digits",
	}
	maps.Copy(settings, o.Settings)
	var ini strings.Builder
	fmt.Fprintf(&ini, "[databases]\n* = host=%s port=%s\n\n[pgbouncer]\n", upstream.Hostname(), upstreamPort)
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		fmt.Fprintf(&ini, "%s = %s\n", name, settings[name])
	}
	password, _ := upstream.User.Password()
	quote := func(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }
	if err := errors.Join(who.mkdir(home), who.writeFile(config, ini.String()),
		who.writeFile(users, quote(upstream.User.Username())+" "+quote(password)+"\n")); err != nil {
		return plan{}, err
	}
	p := plan{
		account: who, program: program, args: []string{config},
		// From 1.23 SIGTERM waits for the clients, before it didn't.
		stop:        []stopStep{{syscall.SIGTERM, 2 * time.Second}},
		parentDeath: killSignal,
	}
	p.url = (&url.URL{
		Scheme:   "postgres",
		User:     upstream.User,
		Host:     fmt.Sprintf("127.0.0.1:%d", port),
		Path:     "/postgres",
		RawQuery: "sslmode=disable",
	}).String()
	p.ready = func(ctx context.Context) error { return pingPostgreSQL(ctx, p.url) }
	return p, nil
}
