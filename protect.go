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
		err = fn()
		returned = true
	}()
	<-done
	return err
}
