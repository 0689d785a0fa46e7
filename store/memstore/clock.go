package memstore

import "time"

// Later moves the store's clock forward, so that a test need not wait for what
// is due, leased or kept.
func (s *Store) Later(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ahead += d
}

// now, by the store's clock, is called with the lock held.
func (s *Store) now() time.Time { return time.Now().UTC().Add(s.ahead) }
