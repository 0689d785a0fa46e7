package yekbar

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// maxIdentity is the longest message_id stored as it is, in bytes.
	maxIdentity = 512
	// hashPrefix begins the message_id of longer ones.
	hashPrefix = "sha256:"
)

// Identity returns the string stored as message_id, or an *IdentityError:
//
//   - the ID, when Source is empty, and the ID has no space, no "|" and does
//     not begin with "sha256:";
//   - otherwise Source, a space, the ID (Source may be empty here);
//   - "sha256:" and the hash in hex of that string when it is over 512 bytes.
//
// Two messages have the same identity only when both Source and ID are equal,
// byte for byte. A source is a URI reference (RFC 3986), which has neither
// spaces nor "|"; one that has is refused.
func (m *Message) Identity() (string, error) {
	return identity("", m.Source, m.ID)
}

// identity is Identity within a scope, which stands before the rest and a "|".
// The first space or "|" of the string says what was put together: none, it is
// an ID; a space, the source ends there; a "|", the scope does.
func identity(scope, source, id string) (string, error) {
	if p := identityProblem(scope, source, id); p != "" {
		return "", &IdentityError{Problem: p}
	}
	s := id
	if source != "" || strings.ContainsAny(id, " |") || strings.HasPrefix(id, hashPrefix) {
		s = source + " " + id
	}
	if scope != "" {
		s = scope + "|" + s
	}
	if len(s) > maxIdentity {
		sum := sha256.Sum256([]byte(s))
		s = hashPrefix + hex.EncodeToString(sum[:])
	}
	return s, nil
}

func identityProblem(scope, source, id string) string {
	switch {
	case id == "":
		return "missing"
	case strings.TrimFunc(id, unicode.IsSpace) == "":
		return "blank"
	}
	for _, part := range []struct{ name, s string }{{"", id}, {"source ", source}, {"scope ", scope}} {
		switch {
		case !utf8.ValidString(part.s):
			return part.name + "not UTF-8"
		case strings.IndexByte(part.s, 0) >= 0:
			return part.name + "has NUL"
		case part.name != "" && strings.IndexByte(part.s, ' ') >= 0:
			return part.name + "has a space"
		case part.name != "" && strings.IndexByte(part.s, '|') >= 0:
			return part.name + "has a |"
		}
	}
	return ""
}

// An IDFunc finds a message's source and ID. An empty id means that this way
// has none, and the message is set aside; so does an error.
type IDFunc func(*Message) (source, id string, err error)

// IDFromTransport takes what the broker adapter found: the CloudEvents
// attributes, else the header that the transport's producers use for it. It is
// the default.
func IDFromTransport(m *Message) (source, id string, err error) {
	return m.Source, m.ID, nil
}

// IDFromHeader takes the ID from a header, whose name is compared exactly, and
// no source. A header that stands twice with different values has no ID.
func IDFromHeader(name string) IDFunc {
	return func(m *Message) (source, id string, err error) {
		vs := m.Header.Values(name)
		if len(vs) == 0 {
			return "", "", nil
		}
		for _, v := range vs[1:] {
			if string(v) != string(vs[0]) {
				return "", "", &IdentityError{Topic: m.Topic, Problem: "header " + name + " has several values"}
			}
		}
		return "", string(vs[0]), nil
	}
}

// IDFromCloudEvents takes source and id, both of which CloudEvents demands,
// and nothing else.
func IDFromCloudEvents(m *Message) (source, id string, err error) {
	if m.Source == "" {
		return "", "", &IdentityError{Topic: m.Topic, Problem: "no CloudEvents source"}
	}
	return m.Source, m.ID, nil
}

// FirstID tries several ways in order and takes the first ID that is not
// empty. A producer that moves its ID from one place to another makes
// everything new.
func FirstID(fs ...IDFunc) IDFunc {
	return func(m *Message) (source, id string, err error) {
		for _, f := range fs {
			if source, id, err = f(m); err != nil || id != "" {
				return source, id, err
			}
		}
		return "", "", nil
	}
}

// ScopeTopic makes the topic part of the identity.
func ScopeTopic(m *Message) string { return m.Topic }

// ScopeGlobal declares that IDs are unique over all topics of a source.
func ScopeGlobal(*Message) string { return "" }
