package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/yekbar-go/yekbar/cmd/yekbar/internal/safeurl"
)

// Exit statuses; the commands' help texts say the same. (go run turns every
// one that is not 0 into 1.)
const (
	exitWrong       = 1 // demo: the stock is not what it must be; doctor: a problem
	exitUsage       = 2 // flags, URLs or files are wrong; nothing was done
	exitInput       = 3 // some of it was done, some of the input could not be
	exitFailed      = 4 // could not do what was asked: a server, the disk
	exitMissing     = 5 // no such consumer, message or claim; nothing was done
	exitInterrupted = 130
)

// A statusError ends the program with a status of its own.
type statusError struct {
	status int
	err    error // nil: all is said
}

func (e *statusError) Error() string { return fmt.Sprint(e.err) }
func (e *statusError) Unwrap() error { return e.err }

// A program is what commands need to know about it.
type program struct {
	stdin          io.Reader
	stdout, stderr *os.File
}

type commands struct {
	Demo       demoCommand       `cmd:"" help:"Run a shop whose workers are killed, and check its stock."`
	DemoWorker demoWorkerCommand `cmd:"" hidden:"" help:"A worker process of yekbar demo, which starts it."`
	Migrate    migrateCommand    `cmd:"" help:"Create or change Yekbar's tables."`
	Status     statusCommand     `cmd:"" help:"Tell how the consumers stand."`
	Pause      pauseCommand      `cmd:"" help:"Pause a consumer, in all its workers."`
	Resume     resumeCommand     `cmd:"" help:"Let a paused consumer go on."`
	Dead       deadCommands      `cmd:"" help:"Look at, replay or discard messages that wait for a person."`
	Parked     parkedCommands    `cmd:"" help:"Look at messages that the database retries, or hurry them."`
	Claims     claimsCommands    `cmd:"" help:"Look at a claim, or forget it."`
	Consumers  consumersCommands `cmd:"" help:"Confirm a consumer's new subscription."`
	Audit      auditCommand      `cmd:"" help:"Tell who did what by hand, and why."`
	Prune      pruneCommand      `cmd:"" help:"Delete claims that are past the deduplication window."`
	Rewind     rewindCommand     `cmd:"" help:"Let the broker deliver again what a restored database lost."`
	Import     importCommand     `cmd:"" help:"Take over the claims of another inbox table."`
	Doctor     doctorCommand     `cmd:"" help:"Examine all that Yekbar depends on."`
	Bench      benchCommand      `cmd:"" help:"Measure what a claim costs on a PostgreSQL of one's own."`
	Version    kong.VersionFlag  `help:"Print the version."`
}

// run runs the program and returns its exit status.
func run(args []string) int {
	p := &program{os.Stdin, os.Stdout, os.Stderr}
	parser, err := kong.New(&commands{},
		kong.Name("yekbar"),
		kong.Description("Makes a message that is delivered more than once take effect once."),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.Vars{"version": version()},
		kong.Bind(p),
	)
	if err != nil {
		return p.fail(err, exitFailed)
	}
	c, err := parser.Parse(args)
	if err != nil {
		help := "yekbar"
		var parse *kong.ParseError
		if errors.As(err, &parse) && parse.Context.Command() != "" {
			help += " " + strings.Join(slices.DeleteFunc(strings.Fields(parse.Context.Command()), func(word string) bool { return word[0] == '<' || word[0] == '[' }), " ")
		}
		return p.fail(fmt.Errorf("%w; see %s --help", err, help), exitUsage)
	}
	if err := c.Run(); err != nil {
		return p.fail(err, exitFailed)
	}
	return 0
}

// fail prints err and returns its status, or the given one.
func (p *program) fail(err error, status int) int {
	var s *statusError
	if errors.As(err, &s) {
		status = s.status
		if s.err == nil {
			return status
		}
	}
	// Whatever a flag was given, or a library repeats, no password is shown.
	p.say("yekbar: " + safeurl.Mask(err.Error()))
	return status
}

// say writes a line to standard error. When that is gone there is nobody to
// tell; the exit status still speaks.
func (p *program) say(line string) { _, _ = fmt.Fprintln(p.stderr, line) }

func version() string {
	v := "yekbar (devel)"
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		v = "yekbar " + info.Main.Version
	}
	return v
}
