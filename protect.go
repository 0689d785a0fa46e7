package yekbar

import "runtime/debug"

// protect runs fn in a goroutine of its own, so that neither a panic nor
// runtime.Goexit in it reaches the caller; both become a *PanicError.
func protect(fn func() error) (err error) {
	done := make(chan struct{})
	go func() {
		returned := false
		defer close(done)
		defer func() {
			if !returned {
				err = &PanicError{Value: recover(), Stack: debug.Stack()}
			}
		}()
		stretch(0)
		err = fn()
		returned = true
	}()
	<-done
	return err
}

// stretch makes the new goroutine's stack large enough for a database driver
// at once. Growing it under the driver's frames, again with every message,
// took a tenth of the processor's time.
//
//go:noinline
func stretch(i int) byte {
	var room [16 << 10]byte
	return room[i]
}
