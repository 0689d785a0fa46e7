// Command services runs a command with real servers beside it.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/yekbar-go/yekbar/internal/integration/servers"
)

const usage = `services runs a command with real servers for the tests beside it.

Usage:
    services run [-- COMMAND ARGUMENTS...]
        Installs what is missing where it may (as root on Debian and Ubuntu),
        starts PostgreSQL, MariaDB, PgBouncer and NATS JetStream on free ports
        of 127.0.0.1, tells COMMAND their URLs, stops them after it, and exits
        with its status. Without a COMMAND it prints the URLs and keeps the
        servers until Ctrl-C. It also ends when its parent process ends.
    services install
        Only installs what is missing.
    services clean
        Removes the servers' data and what killed runs left.
    services help
        Prints this.

Environment:
    YEKBAR_TEST_POSTGRES, YEKBAR_TEST_MARIADB, YEKBAR_TEST_PGBOUNCER,
    YEKBAR_TEST_NATS
        URLs of servers that run already: these are used, and neither installed
        nor started. COMMAND gets the others set.
    YEKBAR_REQUIRE_SERVICES=1
        A server that can't be had is an error; otherwise its tests are skipped.
    YEKBAR_SERVICES_FSYNC=1
        Commits are durable against a power cut, as in production and for
        benchmarks; otherwise only against killed processes, which is quicker.
    YEKBAR_SERVICES_DIR
        Where the servers' data goes; .services beside go.work when unset.

Where nothing may be installed, servers that are missing run in containers
(compose.yaml) when a container engine answers.
`

func main() { os.Exit(realMain(os.Args[1:], os.Stdout, os.Stderr)) }

// exitUsage is the status for arguments that make no sense.
const exitUsage = 2

func realMain(args []string, stdout, stderr io.Writer) int {
	code, err := dispatch(args, stdout, stderr)
	if err != nil {
		say(stderr, "%v", err)
		if code == 0 {
			code = 1
		}
	}
	return code
}

// say tells the user something beside the command's own output. A standard
// error that can't be written to can't be told so.
func say(stderr io.Writer, format string, args ...any) {
	_, _ = fmt.Fprintf(stderr, "services: "+format+"\n", args...)
}

func dispatch(args []string, stdout, stderr io.Writer) (int, error) {
	if len(args) == 0 {
		return exitUsage, errors.New("no subcommand; it is one of run, install, clean, help")
	}
	name, rest := args[0], args[1:]
	if name != "run" && len(rest) > 0 {
		return exitUsage, fmt.Errorf("%s takes no arguments, got %q", name, strings.Join(rest, " "))
	}
	switch name {
	case "run":
		if len(rest) > 0 && rest[0] != "--" {
			return exitUsage, fmt.Errorf("run: write -- before the command, as in: services run -- %s", strings.Join(rest, " "))
		}
		if len(rest) == 1 {
			return exitUsage, errors.New("run: there is no command after --")
		}
		if len(rest) > 0 {
			rest = rest[1:]
		}
		return run(rest, stdout, stderr)
	case "install":
		return 0, install(stderr, missing())
	case "clean":
		return 0, servers.Clean()
	case "help", "-h", "-help", "--help":
		_, err := fmt.Fprint(stdout, usage)
		return 0, err
	}
	return exitUsage, fmt.Errorf("no subcommand %q; it is one of run, install, clean, help", name)
}
