package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/yekbar-go/yekbar/internal/integration/servers"
)

// A stand-in for docker writes down how it was called and answers as the real
// one does: this tests our half of the talk.
func TestContainersTalkToTheEngine(t *testing.T) {
	dir := t.TempDir()
	calls := filepath.Join(dir, "calls")
	script := "#!/bin/sh\necho \"$@\" >> " + calls + `
[ -n "$YEKBAR_COMPOSE_PASSWORD" ] || exit 1
case "$*" in
*"port postgres 5432") echo 127.0.0.1:40001 ;;
*"port pgbouncer 6432") echo 127.0.0.1:40002 ;;
esac
`
	if err := os.WriteFile(filepath.Join(dir, "docker"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	c, err := startContainers(t.Context(), []servers.Kind{servers.KindPostgreSQL, servers.KindPgBouncer})
	if err != nil {
		t.Fatal(err)
	}
	if want := "postgres://yekbar:" + c.password + "@127.0.0.1:40002/postgres?sslmode=disable"; c.urls[servers.KindPgBouncer] != want {
		t.Errorf("the pooler is at %s, want %s", c.urls[servers.KindPgBouncer], want)
	}
	if err := c.down(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(calls)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"up --detach --wait postgres pgbouncer", "down --volumes"} {
		if !strings.Contains(string(b), want) {
			t.Errorf("docker was not called with %q but:\n%s", want, b)
		}
	}
	if strings.Contains(string(b), c.password) {
		t.Error("the password was an argument, which every user can read")
	}
}

func TestNoEngineIsAClearError(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if _, err := startContainers(t.Context(), servers.Kinds()); err == nil || !strings.Contains(err.Error(), "docker") {
		t.Errorf("got %v", err)
	}
}
