package natsbroker

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/yekbar-go/yekbar"
	"github.com/yekbar-go/yekbar/broker"
)

var _ broker.Positioner = (*Source)(nil)

// gapFactor bounds the sequences that Acknowledged looks at, in multiples of
// the messages that it may yield: others may be deleted, or of another
// subject.
const gapFactor = 10

// Positions implements broker.Positioner: the stream is one partition, and its
// position the sequence after the acknowledgement floor.
func (s *Source) Positions(ctx context.Context) (map[string]string, error) {
	info, err := s.info(ctx)
	if err != nil {
		return nil, err
	}
	return map[string]string{s.config.Stream: strconv.FormatUint(info.AckFloor.Stream+1, 10)}, nil
}

// info asks on a handle of its own: the one of Receive caches.
func (s *Source) info(ctx context.Context) (*jetstream.ConsumerInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	c, err := s.js.Consumer(ctx, s.config.Stream, s.config.Durable)
	if err != nil {
		return nil, problem(s.js, err, "consumer %q of the stream %q", s.config.Durable, s.config.Stream)
	}
	return c.CachedInfo(), nil
}

// Acknowledged implements broker.Positioner. Messages that the stream keeps no
// more, or from which none can be decoded, are left out.
func (s *Source) Acknowledged(ctx context.Context, from map[string]string, limit int) iter.Seq2[*yekbar.Message, error] {
	return func(yield func(*yekbar.Message, error) bool) {
		first, err := parsePosition(from[s.config.Stream])
		if err != nil {
			yield(nil, err)
			return
		}
		info, err := s.info(ctx)
		if err != nil {
			yield(nil, err)
			return
		}
		stream, err := s.js.Stream(ctx, s.config.Stream)
		if err != nil {
			yield(nil, problem(s.js, err, "stream %q", s.config.Stream))
			return
		}
		first = max(first, stream.CachedInfo().State.FirstSeq)
		looks := limit * gapFactor
		for seq := info.AckFloor.Stream; seq >= first && seq > 0 && limit > 0 && looks > 0; seq-- {
			looks--
			m, err := s.stored(ctx, stream, info.Config, seq)
			if m == nil && err == nil {
				continue
			}
			limit--
			if !yield(m, err) || err != nil {
				return
			}
		}
	}
}

// stored returns the message at a sequence, or nil when there is none of the
// consumer's.
func (s *Source) stored(ctx context.Context, stream jetstream.Stream, c jetstream.ConsumerConfig, seq uint64) (*yekbar.Message, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	raw, err := stream.GetMsg(ctx, seq)
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return nil, nil
	case err != nil:
		return nil, problem(s.js, err, "message %d of the stream %q", seq, s.config.Stream)
	case !delivers(c, raw.Subject):
		return nil, nil
	}
	m, err := decode(storedMsg{raw})
	if err != nil {
		return nil, nil // it was set aside as undecodable
	}
	return m, nil
}

// delivers reports whether the consumer gets messages of a subject.
func delivers(c jetstream.ConsumerConfig, subject string) bool {
	filters := c.FilterSubjects
	if c.FilterSubject != "" {
		filters = []string{c.FilterSubject}
	}
	for _, f := range filters {
		if covers(f, subject) {
			return true
		}
	}
	return len(filters) == 0
}

// Rewind implements broker.Positioner: it creates the consumer anew, with the
// same configuration and another start. In a stream that deletes what was
// acknowledged (work queue, interest) there is nothing to go back to, which is
// an error.
func (s *Source) Rewind(ctx context.Context, positions map[string]string) error {
	position, ok := positions[s.config.Stream]
	if !ok {
		return fmt.Errorf("yekbar/broker/natsbroker: no position of the stream %q to rewind to", s.config.Stream)
	}
	seq, err := parsePosition(position)
	if err != nil {
		return err
	}
	stream, err := s.js.Stream(ctx, s.config.Stream)
	if err != nil {
		return problem(s.js, err, "stream %q", s.config.Stream)
	}
	if r := stream.CachedInfo().Config.Retention; r != jetstream.LimitsPolicy {
		return fmt.Errorf("yekbar/broker/natsbroker: the stream %q has the retention policy %v, which deletes what was acknowledged: there is nothing to rewind to", s.config.Stream, r)
	}
	info, err := s.info(ctx)
	if err != nil {
		return err
	}
	c := info.Config
	c.DeliverPolicy, c.OptStartSeq, c.OptStartTime = jetstream.DeliverByStartSequencePolicy, max(seq, 1), nil
	if err := s.js.DeleteConsumer(ctx, s.config.Stream, s.config.Durable); err != nil {
		return problem(s.js, err, "consumer %q of the stream %q can't be deleted", s.config.Durable, s.config.Stream)
	}
	if _, err := s.js.CreateConsumer(ctx, s.config.Stream, c); err != nil {
		return problem(s.js, err, "consumer %q of the stream %q was deleted, and can't be created with the start %d; until it is, EnsureConsumer would create one that delivers all of the stream",
			s.config.Durable, s.config.Stream, c.OptStartSeq)
	}
	return nil
}

func parsePosition(p string) (uint64, error) {
	if p == "" {
		return 0, nil
	}
	seq, err := strconv.ParseUint(p, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("yekbar/broker/natsbroker: %q is no position: a sequence of the stream is needed", p)
	}
	return seq, nil
}

// A storedMsg is a message as the stream has it, to be decoded.
type storedMsg struct{ raw *jetstream.RawStreamMsg }

func (m storedMsg) Headers() nats.Header { return m.raw.Header }
func (m storedMsg) Data() []byte         { return m.raw.Data }
func (m storedMsg) Subject() string      { return m.raw.Subject }
