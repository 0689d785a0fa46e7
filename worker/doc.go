// Package worker runs a consumer over a broker's source: it receives, calls
// Process, and acknowledges after COMMIT or gives back with a delay.
//
//	w, err := worker.New(source, consumer, worker.Config{})
//	…
//	err = w.Run(ctx) // until ctx ends and all is settled
//
// What is never acknowledged before it is safe: a message is acknowledged when
// Process returned nil, or when it is set aside in the store's table of held
// messages, and at no other time.
//
// While the database is away nothing is fetched, and what is held is kept, its
// lease extended; one message probes. While the broker is away Receive is
// tried again. Neither counts as an attempt.
package worker
