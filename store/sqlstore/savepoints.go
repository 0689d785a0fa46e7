package sqlstore

import "strings"

// savepoints follows the stack of a transaction's savepoints. Names are
// compared as the databases do: sqlscan folds what PostgreSQL folds; MariaDB
// and SQLite ignore case also in quotes.
type savepoints struct {
	dialect Dialect
	names   []string
}

func (s *savepoints) key(name string) string {
	if s.dialect == PostgreSQL {
		return name
	}
	return strings.ToLower(name)
}

func (s *savepoints) find(name string) int {
	name = s.key(name)
	for i := len(s.names) - 1; i >= 0; i-- {
		if s.names[i] == name {
			return i
		}
	}
	return -1
}

// set pushes a savepoint. On MariaDB a name stands once: the old one goes.
func (s *savepoints) set(name string) {
	if i := s.find(name); i >= 0 && s.dialect == MariaDB {
		s.names = append(s.names[:i], s.names[i+1:]...)
	}
	s.names = append(s.names, s.key(name))
}

// rollbackTo drops what came after the savepoint, which stays.
func (s *savepoints) rollbackTo(name string) {
	if i := s.find(name); i >= 0 {
		s.names = s.names[:i+1]
	}
}

// release drops the savepoint and what came after it.
func (s *savepoints) release(name string) {
	if i := s.find(name); i >= 0 {
		s.names = s.names[:i]
	}
}
