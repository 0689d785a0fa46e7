package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/yekbar-go/yekbar/internal/integration/servers"
)

// Bounds for the container engine: its answer, the servers' start with the
// download of their images, and their end.
const (
	engineBound = 10 * time.Second
	upBound     = 10 * time.Minute
	downBound   = time.Minute
)

// containers are servers that run by compose.yaml.
type containers struct {
	file     string
	project  string
	password string
	urls     map[servers.Kind]string
}

// composeService is a server's name and port in compose.yaml.
var composeService = map[servers.Kind]struct {
	name, port string
}{
	servers.KindPostgreSQL: {"postgres", "5432"},
	servers.KindMariaDB:    {"mariadb", "3306"},
	servers.KindPgBouncer:  {"pgbouncer", "6432"},
	servers.KindNATS:       {"nats", "4222"},
}

// startContainers starts the kinds in containers.
func startContainers(ctx context.Context, kinds []servers.Kind) (*containers, error) {
	if _, err := exec.LookPath("docker"); err != nil {
		return nil, errors.New("there is no docker in PATH")
	}
	root, err := moduleRoot()
	if err != nil {
		return nil, err
	}
	c := &containers{
		file:     filepath.Join(root, "compose.yaml"),
		project:  fmt.Sprintf("yekbar-%d", os.Getpid()),
		password: strings.ToLower(rand.Text()),
		urls:     map[servers.Kind]string{},
	}
	if _, err := c.docker(ctx, engineBound, "info", "--format", "{{.ServerVersion}}"); err != nil {
		return nil, err
	}
	// The pooler's container reaches PostgreSQL's, not one on this machine.
	if slices.Contains(kinds, servers.KindPgBouncer) && !slices.Contains(kinds, servers.KindPostgreSQL) {
		kinds = slices.DeleteFunc(slices.Clone(kinds), func(k servers.Kind) bool { return k == servers.KindPgBouncer })
	}
	if len(kinds) == 0 {
		return nil, errors.New("a pooler in a container needs PostgreSQL in a container")
	}
	args := []string{"up", "--detach", "--wait"}
	for _, kind := range kinds {
		args = append(args, composeService[kind].name)
	}
	if _, err := c.compose(ctx, upBound, args...); err != nil {
		return nil, errors.Join(err, c.down())
	}
	for _, kind := range kinds {
		s := composeService[kind]
		out, err := c.compose(ctx, engineBound, "port", s.name, s.port)
		if err != nil {
			return nil, errors.Join(err, c.down())
		}
		c.urls[kind] = c.url(kind, strings.TrimSpace(string(out)))
	}
	return c, nil
}

func (c *containers) url(kind servers.Kind, host string) string {
	u := url.URL{Scheme: "postgres", Host: host, Path: "/postgres", RawQuery: "sslmode=disable", User: url.UserPassword("yekbar", c.password)}
	switch kind {
	case servers.KindMariaDB:
		u.Scheme, u.Path, u.RawQuery, u.User = "mysql", "/", "", url.UserPassword("root", c.password)
	case servers.KindNATS:
		u = url.URL{Scheme: "nats", Host: host}
	}
	return u.String()
}

// down removes the containers with their data; it must also work after ctx.
func (c *containers) down() error {
	_, err := c.compose(context.Background(), downBound, "down", "--volumes", "--timeout", "5")
	return err
}

func (c *containers) compose(ctx context.Context, bound time.Duration, args ...string) ([]byte, error) {
	return c.docker(ctx, bound, append([]string{"compose", "--file", c.file, "--project-name", c.project}, args...)...)
}

func (c *containers) docker(ctx context.Context, bound time.Duration, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	cmd := exec.CommandContext(ctx, "docker", args...)
	cmd.Env = append(os.Environ(), "YEKBAR_COMPOSE_PASSWORD="+c.password)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("docker %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(stderr.Bytes()))
	}
	return out, nil
}

// moduleRoot is the folder with compose.yaml, from here upwards.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for at := dir; ; at = filepath.Dir(at) {
		if _, err := os.Stat(filepath.Join(at, "compose.yaml")); err == nil {
			return at, nil
		}
		if at == filepath.Dir(at) {
			return "", fmt.Errorf("no compose.yaml in %s or above", dir)
		}
	}
}
