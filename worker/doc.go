// Package worker runs a consumer over a broker's source: it receives, calls
// Process, and acknowledges after COMMIT.
//
//	w, err := worker.New(source, consumer, worker.Config{})
//	…
//	err = w.Run(ctx) // until ctx ends and all is settled
//
// # Never lost
//
// A message is acknowledged when it took effect, or when the database has
// taken it over, whole, and at no other time. Who owns it stands in its claim:
// applied (done), parked (the database retries it), dead (a person decides).
//
// # Failures
//
// One that will be repeated soon waits here, its lease extended; for a longer
// time (Config.ParkAfter), or when many wait, it is parked. Attempts are
// counted in the database, for all workers, and only the message's own: no
// outage, shutdown or unfit database costs one. After Config.MaxAttempts, or
// at once when it is permanent, undecodable, without an ID or in conflict, it
// is dead.
//
// # Crashes
//
// A message that is delivered again and nothing says why is a suspect: it runs
// while nothing else does, and the database knows that it began. When its
// process ends without a word that often (Config.MaxCrashes), it is dead. So
// one that kills processes costs the others time and nothing else.
//
// # Order
//
// Under [ByKey], messages of one key run one after the other. When the first
// must wait, it is parked, and those behind it too, so that nothing waits here.
//
// # Outages
//
// While the database is away nothing is fetched, what is here is kept, its
// lease extended, and one message probes. The same when it is not fit for
// Config.EnvironmentLimit different messages in a row (a migration is missing).
// While the broker is away Receive is tried again. [Worker.Health] says so.
//
// # Before the first message
//
// Run refuses tables that are not fit, a consumer's name that belongs to
// another subscription, and a database that was restored to before what the
// broker holds for acknowledged ([yekbar.ErrBehindBroker]).
//
// # The end
//
// When ctx ends nothing more is fetched, and what has not begun goes back.
// What runs may finish within Config.Grace, then it is cancelled and given
// back; what is done is acknowledged. A handler that ignores its context is
// reported as stuck, and what it does is not committed.
//
// A worker also deletes claims that are past their retention, slowly, and
// writes down how far it has acknowledged.
package worker
