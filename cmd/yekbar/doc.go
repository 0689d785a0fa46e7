// Command yekbar is Yekbar's program:
//
//	yekbar demo       a shop whose workers are killed, and whose stock is right
//	yekbar migrate    creates and changes Yekbar's tables
//
// yekbar COMMAND --help describes a command, with examples. It is built without
// cgo.
package main
