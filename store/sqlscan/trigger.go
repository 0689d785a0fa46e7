package sqlscan

import "strings"

// A trigger follows SQLite's CREATE TRIGGER, the one statement with semicolons
// inside: it ends with "; END ;".
type trigger struct {
	state triggerState
}

type triggerState uint8

const (
	triggerStart   triggerState = iota // nothing yet, or EXPLAIN
	triggerCreate                      // after CREATE
	triggerNo                          // another statement
	triggerBody                        // inside
	triggerSemi                        // after a semicolon inside
	triggerSemiEnd                     // after "; END"
)

func (t *trigger) token(k token) {
	w := ""
	if k.kind == wordToken {
		w = strings.ToUpper(k.text)
	}
	switch t.state {
	case triggerStart:
		switch w {
		case "EXPLAIN", "QUERY", "PLAN":
		case "CREATE":
			t.state = triggerCreate
		default:
			t.state = triggerNo
		}
	case triggerCreate:
		switch w {
		case "TEMP", "TEMPORARY":
		case "TRIGGER":
			t.state = triggerBody
		default:
			t.state = triggerNo
		}
	case triggerBody, triggerSemi, triggerSemiEnd:
		if t.state == triggerSemi && w == "END" {
			t.state = triggerSemiEnd
		} else {
			t.state = triggerBody
		}
	}
}

// open reports whether a semicolon here is inside the statement.
func (t *trigger) open() bool { return t.state == triggerBody || t.state == triggerSemi }

func (t *trigger) semicolon() { t.state = triggerSemi }
