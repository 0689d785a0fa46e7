package storetest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/yekbar-go/yekbar"
)

// patience bounds each check; a healthy store needs a fraction of it.
const patience = 2 * time.Minute

// Run runs every check as a parallel subtest.
func Run[Tx any](t *testing.T, f Fixture[Tx]) {
	if f.New == nil {
		t.Fatal("storetest: Fixture.New is required")
	}
	for _, c := range checks[Tx]() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			runCheck(t, f, c)
		})
	}
}

// A check is one rule, or one group of rules that break together. It must fail
// for the wrong stores that the package's own tests name beside it.
type check[Tx any] struct {
	name string
	run  func(*env[Tx])
	// single: once more with a pool of one connection.
	single bool
}

func checks[Tx any]() []check[Tx] {
	return slices.Concat(
		claimChecks[Tx](), raceChecks[Tx](), batchChecks[Tx](), failureChecks[Tx](), contextChecks[Tx](),
		boundaryChecks[Tx](), bindChecks[Tx](), holdChecks[Tx](), heldChecks[Tx](), dueChecks[Tx](), attemptChecks[Tx](), scheduleChecks[Tx](),
		operatorChecks[Tx](), auditChecks[Tx](), retentionChecks[Tx](), registryChecks[Tx](), abilityChecks[Tx](), statementChecks[Tx](), schemaChecks[Tx](), mapChecks[Tx](),
	)
}

func runCheck[Tx any](t testing.TB, f Fixture[Tx], c check[Tx]) {
	c.run(newEnv(t, f, f.New))
	if c.single && f.NewSingle != nil && !t.Failed() {
		t.Log("again, with a pool of one connection")
		e := newEnv(t, f, f.NewSingle)
		e.Blocked = nil // who waits, waits for the connection
		c.run(e)
	}
}

// An env is what a check works with.
type env[Tx any] struct {
	testing.TB
	*Instance[Tx]
	fixture  Fixture[Tx]
	features yekbar.Features
	ctx      context.Context
}

func newEnv[Tx any](t testing.TB, f Fixture[Tx], open func(testing.TB) *Instance[Tx]) *env[Tx] {
	i := open(t)
	if i.Store == nil || i.Add == nil || i.Insert == nil || i.Read == nil || i.Begin == nil || i.Claims == nil {
		t.Fatal("storetest: Store, Add, Insert, Read, Begin and Claims of an Instance are required")
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return &env[Tx]{TB: t, Instance: i, fixture: f, features: i.Store.Features(), ctx: ctx}
}

// need skips the check when the store does not declare a feature.
func (e *env[Tx]) need(declared bool, feature string) {
	e.Helper()
	if !declared {
		e.Skipf("the store does not declare Features.%s", feature)
	}
}

// need2 skips a check that has two transactions open at once.
func (e *env[Tx]) need2() {
	e.Helper()
	e.need(e.features.LockWait, "LockWait (and so has perhaps one writer at a time)")
}

const suite = "suite" // the consumer

// longWait is for claims that must be waited for.
const longWait = 30 * time.Second

func fingerprintOf(id string) []byte {
	return (&yekbar.Message{Payload: []byte("payload of " + id)}).Fingerprint()
}

func claim(id string) yekbar.Claim {
	return yekbar.Claim{Consumer: suite, MessageID: id, Fingerprint: fingerprintOf(id), Wait: longWait}
}

func claimsOf(ids ...string) []yekbar.Claim {
	cs := make([]yekbar.Claim, len(ids))
	for i, id := range ids {
		cs[i] = claim(id)
	}
	return cs
}

// body is what Attempt calls.
type body[Tx any] = func(ctx context.Context, tx Tx, fresh []int) error

// adds returns a body that adds 1 to each of the keys.
func (e *env[Tx]) adds(keys ...string) body[Tx] {
	return func(ctx context.Context, tx Tx, _ []int) error {
		for _, key := range keys {
			if err := e.Add(ctx, tx, key, 1); err != nil {
				return err
			}
		}
		return nil
	}
}

// failing returns a body that adds 1 to each of the keys, and fails.
func (e *env[Tx]) failing(keys ...string) body[Tx] {
	return func(ctx context.Context, tx Tx, fresh []int) error {
		return errors.Join(e.adds(keys...)(ctx, tx, fresh), errBusiness)
	}
}

// settle is Attempt, repeated while the store says "try again", as a consumer
// does.
func (e *env[Tx]) settle(cs []yekbar.Claim, fn body[Tx]) ([]yekbar.Claimed, error) {
	return retry(e.ctx, func() ([]yekbar.Claimed, error) { return e.Store.Attempt(e.ctx, cs, fn) })
}

func retry[T any](ctx context.Context, try func() (T, error)) (T, error) {
	pause := yekbar.Backoff{Min: time.Millisecond, Max: 50 * time.Millisecond}
	for n := 1; ; n++ {
		v, err := try()
		if !errors.Is(err, yekbar.ErrTransient) && !errors.Is(err, yekbar.ErrInFlight) {
			return v, err
		}
		select {
		case <-time.After(pause.Pause(n)):
		case <-ctx.Done():
			return v, err
		}
	}
}

// apply is settle for one message, which must succeed; it returns whether the
// message was fresh.
func (e *env[Tx]) apply(id string, fn body[Tx]) bool {
	e.Helper()
	got, err := e.settle(claimsOf(id), fn)
	if err != nil {
		e.Fatalf("Attempt for %q: %v", id, err)
	}
	if len(got) != 1 {
		e.Fatalf("Attempt for one claim gave %d answers", len(got))
	}
	return got[0].Fresh
}

// applyWithResult is apply for a message that stores a result; it is fresh, or
// the check ends.
func (e *env[Tx]) applyWithResult(id, result string) {
	e.Helper()
	fresh := e.apply(id, func(_ context.Context, tx Tx, _ []int) error {
		s, err := e.Store.Bind(tx)
		if err != nil {
			return err
		}
		return s.SetResult(e.ctx, claim(id), []byte(result))
	})
	if !fresh {
		e.Fatalf("message %q was applied before", id)
	}
}

// wantCounter and the other want functions are called with no transaction
// open.
func (e *env[Tx]) wantCounter(key string, want int) {
	e.Helper()
	got, err := e.Read(e.ctx, key)
	if err != nil {
		e.Fatalf("Read(%q): %v", key, err)
	}
	if got != want {
		e.Errorf("counter %q is %d, want %d", key, got, want)
	}
}

func (e *env[Tx]) wantClaims(want int) {
	e.Helper()
	got, err := e.Claims(e.ctx)
	if err != nil {
		e.Fatalf("Claims: %v", err)
	}
	if got != want {
		e.Errorf("%d claims are stored, want %d", got, want)
	}
}

func (e *env[Tx]) wantHeld(want int) {
	e.Helper()
	if e.Held == nil {
		e.Fatal("storetest: Instance.Held is required with Features.Holding")
	}
	got, err := e.Held(e.ctx)
	if err != nil {
		e.Fatalf("Held: %v", err)
	}
	if got != want {
		e.Errorf("%d messages are held, want %d", got, want)
	}
}

// wantNothing asserts that neither claim nor change was stored, and that the
// store still works: the message is fresh on its next delivery.
func (e *env[Tx]) wantNothing(id, key string) {
	e.Helper()
	e.wantClaims(0)
	e.wantCounter(key, 0)
	if e.Failed() {
		return
	}
	if !e.apply(id, e.adds(key)) {
		e.Errorf("the next delivery of %q was called a duplicate: the message is lost", id)
	}
	e.wantClaims(1)
	e.wantCounter(key, 1)
}

// wantError asserts that err wraps each target.
func (e *env[Tx]) wantError(err error, targets ...error) {
	e.Helper()
	if err == nil {
		e.Error("no error: the message would be acknowledged")
	}
	for _, target := range targets {
		if !errors.Is(err, target) {
			e.Errorf("error %q (%T) is not %q", err, err, target)
		}
	}
}

// wantNot asserts that err is none of the targets.
func (e *env[Tx]) wantNot(err error, targets ...error) {
	e.Helper()
	for _, target := range targets {
		if errors.Is(err, target) {
			e.Errorf("error %q (%T) should not be %q", err, err, target)
		}
	}
}

// A running is an Attempt in a goroutine of its own.
type running struct {
	ended   chan struct{} // closed when the rest is there
	claimed []yekbar.Claimed
	err     error
}

// fresh is for a running of one claim that ended without an error.
func (r *running) fresh() bool { return r.claimed[0].Fresh }

// start runs try in a goroutine that ends before the check does.
func (e *env[Tx]) start(try func() ([]yekbar.Claimed, error)) *running {
	r := &running{ended: make(chan struct{})}
	go func() {
		defer close(r.ended)
		r.claimed, r.err = try()
	}()
	e.Cleanup(func() {
		select {
		case <-r.ended:
		case <-time.After(10 * time.Second):
			e.Error("an Attempt still runs 10 s after its check ended: it ignores its context")
		}
	})
	return r
}

// await waits for r's end, or ends the check.
func (e *env[Tx]) await(r *running, what string) {
	e.Helper()
	select {
	case <-r.ended:
	case <-e.ctx.Done():
		e.Fatalf("%s did not end in time", what)
	}
}

// blocked returns when all of rs wait for a lock or have ended, where that can
// be seen.
func (e *env[Tx]) blocked(rs ...*running) {
	e.Helper()
	if e.Blocked == nil || !e.features.LockWait {
		return
	}
	ctx, cancel := context.WithCancel(e.ctx)
	defer cancel()
	seen := make(chan error, 1)
	go func() { seen <- e.Blocked(ctx, len(rs)) }()
	for i := 0; i < len(rs); i++ { // those that end need not wait: their answers tell
		select {
		case err := <-seen:
			if err != nil {
				e.Fatalf("Blocked(%d): %v", len(rs), err)
			}
			return
		case <-rs[i].ended:
		}
	}
	cancel()
	<-seen //nolint:errcheck // it was told to give up
}

// A holder is an Attempt that stays inside fn, its claims written, until it is
// released.
type holder struct {
	*running
	release chan error
}

// hold starts a holder that adds 1 to key and returns once it is inside fn.
func (e *env[Tx]) hold(id, key string) *holder {
	e.Helper()
	return e.holdClaim(claim(id), key)
}

// holdClaim is hold for a claim of any kind.
func (e *env[Tx]) holdClaim(c yekbar.Claim, key string) *holder {
	e.Helper()
	id := c.MessageID
	h := &holder{release: make(chan error, 1)}
	entered := make(chan struct{})
	ctx, cancel := context.WithCancel(e.ctx)
	h.running = e.start(func() ([]yekbar.Claimed, error) {
		return e.Store.Attempt(e.ctx, []yekbar.Claim{c}, func(ctx2 context.Context, tx Tx, fresh []int) error {
			if err := e.Add(ctx2, tx, key, 1); err != nil {
				return err
			}
			close(entered)
			select {
			case err := <-h.release:
				return err
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	})
	e.Cleanup(cancel) // before start's cleanup, which waits
	select {
	case <-entered:
	case <-h.ended:
		e.Fatalf("an Attempt for %q ended before its function waited: %+v, %v", id, h.claimed, h.err)
	case <-e.ctx.Done():
		e.Fatalf("an Attempt for %q did not call its function in time", id)
	}
	return h
}
