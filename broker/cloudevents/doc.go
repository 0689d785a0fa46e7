// Package cloudevents carries messages as CloudEvents 1.0 over any transport:
// in binary mode, attributes in headers; and in structured mode, all in one
// JSON object. Broker adapters share it.
//
// The attributes id, source, type, subject and time are the fields of a
// yekbar.Message of the same names; partitionkey (the extension of that name)
// is its OrderingKey. A message whose attributes contradict each other (two
// ids, invalid UTF-8, bytes behind the JSON object) is an error, never a
// guess.
package cloudevents
