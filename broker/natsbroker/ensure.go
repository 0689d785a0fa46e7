package natsbroker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/yekbar-go/yekbar/broker"
)

const defaultAckWait = 30 * time.Second

// EnsureStream creates the stream unless there is one of its name. One that is
// there stays as it is; when it does not have all subjects of c, that is an
// error.
func EnsureStream(ctx context.Context, js jetstream.JetStream, c jetstream.StreamConfig) error {
	s, err := js.Stream(ctx, c.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		s, err = js.CreateStream(ctx, c)
	}
	if err != nil {
		return problem(js, err, "stream %q can't be created", c.Name)
	}
	have := s.CachedInfo().Config.Subjects
	for _, subject := range c.Subjects {
		if !slices.ContainsFunc(have, func(h string) bool { return covers(h, subject) }) {
			return fmt.Errorf("yekbar/broker/natsbroker: the stream %q is there, with the subjects %q, but without %q: add it (nats stream edit), or use another name",
				c.Name, have, subject)
		}
	}
	return nil
}

// covers reports whether every subject that matches the second pattern matches
// the first.
func covers(pattern, subject string) bool {
	ps, ss := strings.Split(pattern, "."), strings.Split(subject, ".")
	for i, p := range ps {
		switch {
		case p == ">":
			return len(ss) > i
		case i == len(ss), ss[i] == ">":
			return false
		case p != "*" && p != ss[i]:
			return false
		}
	}
	return len(ps) == len(ss)
}

// EnsureConsumer creates the durable pull consumer that c describes unless
// there is one of its name. One that is there stays as it is; NewSource says
// when it is not fit.
func EnsureConsumer(ctx context.Context, js jetstream.JetStream, c SourceConfig) error {
	if err := c.Validate(); err != nil {
		return err
	}
	_, err := js.Consumer(ctx, c.Stream, c.Durable)
	if errors.Is(err, jetstream.ErrConsumerNotFound) || errors.Is(err, jetstream.ErrConsumerDoesNotExist) {
		wait, deliver := c.AckWait, c.MaxDeliver
		if wait == 0 {
			wait = defaultAckWait
		}
		if deliver == 0 {
			deliver = -1
		}
		_, err = js.CreateConsumer(ctx, c.Stream, jetstream.ConsumerConfig{
			Durable:        c.Durable,
			AckPolicy:      jetstream.AckExplicitPolicy,
			AckWait:        wait,
			MaxDeliver:     deliver,
			MaxAckPending:  c.MaxAckPending,
			FilterSubjects: c.Subjects,
		})
	}
	return problem(js, err, "consumer %q of the stream %q can't be created", c.Durable, c.Stream)
}

// problem says what failed, and maps what is an outage.
func problem(js jetstream.JetStream, err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	mapped := outage(js.Conn(), err)
	mend := ""
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		mend = "; create it (EnsureStream, or nats stream add)"
	case errors.Is(err, jetstream.ErrConsumerNotFound):
		mend = "; create it (EnsureConsumer, or nats consumer add)"
	case errors.Is(mapped, broker.ErrOutage):
		mend = "; is the server up, and JetStream enabled (nats-server -js)?"
	}
	return fmt.Errorf("yekbar/broker/natsbroker: "+format+": %w%s", append(args, mapped, mend)...)
}
