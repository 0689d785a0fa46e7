package integration

import (
	"fmt"
	"os"
	"testing"

	"github.com/yekbar-go/yekbar/internal/integration/servers"
)

// childVariable names what a child process of a test does, instead of the
// tests.
const childVariable = "YEKBAR_TEST_CHILD"

// children are the programs that tests run as processes of their own, to be
// killed.
var children = map[string]func() error{}

func TestMain(m *testing.M) {
	name := os.Getenv(childVariable)
	if name == "" {
		os.Exit(servers.Main(m))
	}
	child, ok := children[name]
	if !ok {
		fmt.Fprintf(os.Stderr, "no child process %q\n", name)
		os.Exit(2)
	}
	if err := child(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
