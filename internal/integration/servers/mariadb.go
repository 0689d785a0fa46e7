package servers

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/go-sql-driver/mysql"
)

var mysqlFolders = []string{
	"/usr/sbin", "/usr/libexec", "/usr/local/sbin", "/usr/local/libexec",
	"/usr/local/mysql/bin", "/opt/homebrew/opt/mariadb*/bin", "/opt/homebrew/opt/mysql*/bin",
}

// mysqlServer is a found MariaDB or MySQL.
type mysqlServer struct {
	program string
	install string // mariadb-install-db; empty for MySQL, which initialises itself
}

func findMariaDB() (mysqlServer, error) {
	missing := &MissingError{Kind: KindMariaDB, What: "no program mariadbd or mysqld in PATH or the usual folders", Package: "mariadb-server"}
	program, ok := find("mariadbd", mysqlFolders...)
	if !ok {
		program, ok = find("mysqld", mysqlFolders...)
	}
	if !ok {
		return mysqlServer{}, missing
	}
	out, err := exec.Command(program, "--no-defaults", "--version").Output()
	if err != nil {
		return mysqlServer{}, fmt.Errorf("%s --version: %w", program, err)
	}
	if !strings.Contains(string(out), "MariaDB") {
		return mysqlServer{program: program}, nil
	}
	install, ok := find("mariadb-install-db", "/usr/bin", filepath.Dir(program), filepath.Join(filepath.Dir(program), "../scripts"))
	if !ok {
		missing.What = "there is no mariadb-install-db for " + program
		return mysqlServer{}, missing
	}
	return mysqlServer{program: program, install: install}, nil
}

// mysqlSizes keep a server small; initialising and running must agree on them.
var mysqlSizes = map[string]string{
	"innodb-log-file-size":    "16M",
	"innodb-buffer-pool-size": "64M",
}

func planMariaDB(f *folder, dir string, o Options) (plan, error) {
	server, err := findMariaDB()
	if err != nil {
		return plan{}, err
	}
	who, err := unprivileged("mysql")
	if err != nil {
		return plan{}, err
	}
	template, err := initMariaDB(f, server, who)
	if err != nil {
		return plan{}, err
	}
	password, err := os.ReadFile(filepath.Join(template, "password"))
	if err != nil {
		return plan{}, err
	}
	data, first, tmp := filepath.Join(dir, "data"), filepath.Join(dir, "first.sql"), filepath.Join(dir, "tmp")
	if err := who.mkdir(tmp); err != nil {
		return plan{}, err
	}
	if err := copyTree(filepath.Join(template, "data"), data); err != nil {
		return plan{}, err
	}
	user := "'" + superuser + "'@'%'"
	if err := who.writeFile(first, fmt.Sprintf(`CREATE USER IF NOT EXISTS %s IDENTIFIED BY '%s';
GRANT ALL PRIVILEGES ON *.* TO %s WITH GRANT OPTION;
CREATE DATABASE IF NOT EXISTS yekbar;
`, user, password, user)); err != nil {
		return plan{}, err
	}
	port, err := freePort()
	if err != nil {
		return plan{}, err
	}
	settings := maps.Clone(mysqlSizes)
	maps.Copy(settings, map[string]string{
		"datadir":           data,
		"tmpdir":            tmp, // a server that starts deletes all others' temporary tables in its own
		"bind-address":      "127.0.0.1",
		"port":              strconv.Itoa(port),
		"socket":            "server.sock", // relative to the data: a full path may be too long
		"pid-file":          "server.pid",
		"init-file":         first,
		"skip-name-resolve": "1",
		"max-connections":   "200",
		// What Debian configures: the collation merges case and accents.
		"character-set-server": "utf8mb4",
		"collation-server":     "utf8mb4_general_ci",
		"lc-messages":          "en_US",
	})
	if server.install != "" {
		settings["skip-log-bin"] = ""
	}
	if o.Fsync {
		settings["innodb-flush-log-at-trx-commit"] = "1"
	} else {
		settings["innodb-flush-log-at-trx-commit"] = "2" // written at COMMIT, synced once a second
	}
	if o.Language != "" {
		locale, ok := languages[o.Language]
		if !ok {
			return plan{}, fmt.Errorf("servers: no locale for language %q", o.Language)
		}
		settings["lc-messages"] = locale
	}
	maps.Copy(settings, o.Settings)
	p := plan{
		account:     who,
		program:     server.program,
		args:        mysqlArgs(settings),
		stop:        []stopStep{{syscall.SIGTERM, 20 * time.Second}},
		parentDeath: killSignal,
	}
	p.url = (&url.URL{
		Scheme: "mysql",
		User:   url.UserPassword(superuser, string(password)),
		Host:   fmt.Sprintf("127.0.0.1:%d", port),
		Path:   "/yekbar",
	}).String()
	p.ready = func(ctx context.Context) error {
		return withMariaDB(ctx, p.url, func(db *sql.Conn) error { return db.PingContext(ctx) })
	}
	return p, nil
}

// mysqlArgs writes options as arguments; --no-defaults must come first.
func mysqlArgs(settings map[string]string) []string {
	args := []string{"--no-defaults"}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		if value := settings[name]; value == "" {
			args = append(args, "--"+name)
		} else {
			args = append(args, "--"+name+"="+value)
		}
	}
	return args
}

func initMariaDB(f *folder, server mysqlServer, who account) (string, error) {
	key, err := programKey(server.program)
	if err != nil {
		return "", err
	}
	return f.template(KindMariaDB, fmt.Sprintf("%s %d 1", key, who.uid), func(dir string) error {
		data := filepath.Join(dir, "data")
		if err := errors.Join(who.mkdir(data),
			os.WriteFile(filepath.Join(dir, "password"), []byte(secret()), 0o600)); err != nil {
			return err
		}
		settings := maps.Clone(mysqlSizes)
		settings["datadir"] = data
		program := server.install
		if program == "" {
			program = server.program
			settings["initialize-insecure"] = "" // root may then log in over the socket alone
		} else {
			settings["auth-root-authentication-method"] = "socket"
			settings["skip-name-resolve"], settings["skip-test-db"] = "", ""
		}
		cmd := who.command(dir, program, mysqlArgs(settings)...)
		temp := filepath.Join(dir, "tmp")
		if err := who.mkdir(temp); err != nil {
			return err
		}
		cmd.Env = append(cmd.Env, "TMPDIR="+temp)
		return errors.Join(finish(cmd, initBound), os.RemoveAll(temp))
	})
}

// MariaDBConfig turns a mysql:// URL, as MariaDB returns, into the driver's
// configuration; its FormatDSN gives the DSN.
func MariaDBConfig(mysqlURL string) (*mysql.Config, error) {
	u, err := parseURL(mysqlURL, "mysql", "mariadb")
	if err != nil {
		return nil, err
	}
	c := mysql.NewConfig()
	c.Net, c.Addr = "tcp", u.Host
	if u.Port() == "" {
		c.Addr = u.Host + ":3306"
	}
	c.User = u.User.Username()
	c.Passwd, _ = u.User.Password()
	c.DBName = strings.TrimPrefix(u.Path, "/")
	c.Timeout = 5 * time.Second
	return c, nil
}

func withMariaDB(ctx context.Context, mysqlURL string, use func(*sql.Conn) error) error {
	c, err := MariaDBConfig(mysqlURL)
	if err != nil {
		return err
	}
	c.Logger = &mysql.NopLogger{} // it logs each refused connection; the error says so too
	connector, err := mysql.NewConnector(c)
	if err != nil {
		return err
	}
	db := sql.OpenDB(connector)
	conn, err := db.Conn(ctx)
	if err != nil {
		return errors.Join(err, db.Close())
	}
	return errors.Join(use(conn), conn.Close(), db.Close())
}

// createMariaDB makes a database and returns its URL and how to drop it.
func createMariaDB(ctx context.Context, admin, name string) (string, func(context.Context) error, error) {
	u, err := parseURL(admin, "mysql", "mariadb")
	if err != nil {
		return "", nil, err
	}
	err = withMariaDB(ctx, admin, func(db *sql.Conn) error {
		_, err := db.ExecContext(ctx, "CREATE DATABASE "+name)
		return err
	})
	if err != nil {
		return "", nil, err
	}
	u.Path = "/" + name
	drop := func(ctx context.Context) error {
		return withMariaDB(ctx, admin, func(db *sql.Conn) error {
			return dropMariaDB(ctx, db, name)
		})
	}
	return u.String(), drop, nil
}

// dropMariaDB first ends the sessions in the database: DROP waits for the
// transactions that have touched it.
func dropMariaDB(ctx context.Context, db *sql.Conn, name string) error {
	rows, err := db.QueryContext(ctx, "SELECT id FROM information_schema.processlist WHERE db = ?", name)
	if err != nil {
		return err
	}
	defer rows.Close()
	var ids []int64
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			return err
		}
		ids = append(ids, id)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	const noSuchThread = 1094
	for _, id := range ids {
		var refused *mysql.MySQLError
		_, err := db.ExecContext(ctx, fmt.Sprintf("KILL %d", id))
		if err != nil && !(errors.As(err, &refused) && refused.Number == noSuchThread) {
			return err
		}
	}
	_, err = db.ExecContext(ctx, "DROP DATABASE IF EXISTS "+name)
	return err
}
