package natsbroker

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/yekbar-go/yekbar/broker"
)

// Connect connects to a server, or to several with commas in between. The
// connection reconnects for ever, and what is published while it is down fails
// at once. Options come after these defaults. The caller closes it.
//
// An error has neither user, password nor token of a URL.
func Connect(urls string, options ...nats.Option) (*nats.Conn, error) {
	defaults := []nats.Option{
		nats.Name("yekbar"),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(500 * time.Millisecond),
		nats.ReconnectBufSize(-1),
	}
	nc, err := nats.Connect(urls, append(defaults, options...)...)
	if err != nil {
		return nil, fmt.Errorf("yekbar/broker/natsbroker: can't connect to %s: %w; is nats-server running there, and is the URL right?",
			withoutSecrets(urls), &secretFreeError{err, urls})
	}
	return nc, nil
}

// withoutSecrets returns the servers' addresses alone.
func withoutSecrets(urls string) string {
	var safe []string
	for raw := range strings.SplitSeq(urls, ",") {
		raw = strings.TrimSpace(raw)
		if !strings.Contains(raw, "://") {
			raw = "nats://" + raw
		}
		u, err := url.Parse(raw)
		if err != nil || u.Host == "" {
			safe = append(safe, "(a URL that can't be parsed)")
			continue
		}
		safe = append(safe, u.Scheme+"://"+u.Host)
	}
	return strings.Join(safe, ",")
}

// A secretFreeError does not repeat the URLs, which errors of parsing do.
type secretFreeError struct {
	err  error
	urls string
}

func (e *secretFreeError) Error() string {
	var parse *url.Error
	if errors.As(e.err, &parse) {
		return "the URL can't be parsed"
	}
	text := e.err.Error()
	for raw := range strings.SplitSeq(e.urls, ",") {
		if _, after, ok := strings.Cut(raw, "://"); ok {
			raw = after
		}
		if i := strings.LastIndex(raw, "@"); i > 0 {
			for _, secret := range append(strings.SplitN(raw[:i], ":", 2), raw[:i]) {
				if secret != "" && strings.Contains(text, secret) {
					return "the server refused, for a reason that repeats a secret of the URL"
				}
			}
		}
	}
	return text
}

func (e *secretFreeError) Unwrap() error { return e.err }

// outage maps errors that say that the server, or JetStream on it, can't be
// reached now. Others it returns as they are.
func outage(nc *nats.Conn, err error) error {
	switch {
	case err == nil, errors.Is(err, broker.ErrOutage):
		return err
	case nc.IsClosed():
		return fmt.Errorf("%w: the connection was closed: %w", broker.ErrClosed, err)
	}
	for _, known := range []error{
		nats.ErrConnectionClosed, nats.ErrConnectionReconnecting, nats.ErrConnectionDraining, nats.ErrDisconnected, nats.ErrTimeout, nats.ErrNoResponders,
		nats.ErrReconnectBufExceeded, nats.ErrStaleConnection, nats.ErrNoServers,
		jetstream.ErrConnectionClosed, jetstream.ErrServerShutdown, jetstream.ErrNoHeartbeat, jetstream.ErrConsumerLeadershipChanged,
		jetstream.ErrJetStreamNotEnabled, jetstream.ErrAsyncPublishTimeout, jetstream.ErrTooManyStalledMsgs,
		context.DeadlineExceeded,
	} {
		if errors.Is(err, known) {
			return fmt.Errorf("%w: %w", broker.ErrOutage, err)
		}
	}
	var api *jetstream.APIError
	if errors.As(err, &api) && api.Code == 503 || !nc.IsConnected() {
		return fmt.Errorf("%w: %w", broker.ErrOutage, err)
	}
	return err
}
