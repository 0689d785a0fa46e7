// Package safeurl reads the URLs of servers so that no password in them comes
// out again, in a message of ours or of a driver's.
package safeurl

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
)

// A URL is a server's address with what in it is secret.
type URL struct {
	*url.URL
	secrets []string
}

// Parse reads a URL with a host or a path. Its errors do not repeat raw.
func Parse(raw string) (*URL, error) {
	u, err := url.Parse(raw)
	if err != nil {
		// The text of err may have the password in it, as a wrong port.
		return nil, errors.New("it is no valid URL; write special characters in user and password as %XX (RFC 3986), such as %40 for @")
	}
	s := &URL{URL: u}
	if p, ok := u.User.Password(); ok {
		s.Hide(p)
	}
	for name, values := range u.Query() {
		if n := strings.ToLower(name); strings.Contains(n, "pass") || strings.Contains(n, "token") || strings.Contains(n, "secret") {
			for _, v := range values {
				s.Hide(v)
			}
		}
	}
	return s, nil
}

// Hide adds a secret, which [URL.Clean] takes out. One that equals the user's
// name hides nothing and would only garble messages.
func (u *URL) Hide(secret string) {
	if secret == "" || u.User != nil && secret == u.User.Username() {
		return
	}
	u.secrets = append(u.secrets, secret)
	for _, form := range []string{url.QueryEscape(secret), url.PathEscape(secret)} {
		if form != secret {
			u.secrets = append(u.secrets, form)
		}
	}
}

// String returns scheme, user, host and path: what says which server it is.
func (u *URL) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s://", u.Scheme)
	if u.User != nil && u.User.Username() != "" {
		fmt.Fprintf(&b, "%s@", u.User.Username())
	}
	b.WriteString(u.Host)
	b.WriteString(u.Path)
	return u.clean(b.String())
}

// Clean returns err with the secrets in its text replaced; errors.Is and
// errors.As see what they saw.
func (u *URL) Clean(err error) error {
	if err == nil || u == nil {
		return err
	}
	text := u.clean(err.Error())
	if text == err.Error() {
		return err
	}
	return &cleaned{text, err}
}

func (u *URL) clean(s string) string {
	for _, secret := range u.secrets {
		s = strings.ReplaceAll(s, secret, "xxxxx")
	}
	return s
}

type cleaned struct {
	text string
	err  error
}

func (c *cleaned) Error() string { return c.text }
func (c *cleaned) Unwrap() error { return c.err }

var (
	password = regexp.MustCompile(`(://[^\s:@]*):\S*@`)
	token    = regexp.MustCompile(`((?:nats|tls)://)[^\s:/@]+@`)
)

// Mask takes passwords, and NATS tokens, out of all URLs in a text, whoever
// wrote it.
func Mask(text string) string {
	text = password.ReplaceAllStringFunc(text, func(s string) string {
		if strings.HasSuffix(s, "://USER:PASSWORD@") {
			return s // a hint
		}
		return password.ReplaceAllString(s, "${1}:xxxxx@")
	})
	return token.ReplaceAllString(text, "${1}xxxxx@")
}
