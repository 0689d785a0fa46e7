// Package natsbroker receives from and publishes to NATS JetStream.
//
//	nc, err := natsbroker.Connect("nats://127.0.0.1:4222")
//	js, err := jetstream.New(nc)
//	source, err := natsbroker.NewSource(ctx, js, natsbroker.SourceConfig{Stream: "ORDERS", Durable: "inventory"})
//	w, err := worker.New(source, consumer, worker.Config{})
//
// # Identity
//
// A message's ID and Source are the CloudEvents attributes ce-id and
// ce-source; when there is no ce-id, the ID is the header Nats-Msg-Id. In
// structured mode (content type application/cloudevents+json) they stand in
// the payload. The ordering key is the attribute partitionkey.
//
// # Headers
//
// The Header of a received message has all headers of the wire, those of the
// attributes included. The client library keeps them in a map: names come
// sorted, the values of one name in their order. Bytes of values are kept,
// but NATS can't carry a value with a line break, or one that begins or ends
// with a space or tab: Publish refuses those rather than change them.
//
// # Going back
//
// Positions of the subscription are sequences of the stream. Rewind creates
// the durable consumer anew with another start, which a stream that keeps its
// messages by limits allows; one that deletes what was acknowledged does not,
// and there a database that was restored to an earlier moment goes unnoticed.
//
// # The wait for acknowledgements
//
// A delivery's lease is the consumer's AckWait. Only as many messages are
// requested as Receive was asked for, so that none waits in a buffer of the
// client library while its AckWait runs.
//
// A message that reaches the consumer's MaxDeliver is delivered no more, and
// stays in the stream for nobody: leave it unlimited, or well above
// worker.Config.MaxAttempts.
package natsbroker
