// Package doctor looks at all that Yekbar depends on in a live database, and
// says what is wrong and how it is mended. It changes nothing.
package doctor
