package yekbar

// A Header is an ordered, multi-valued list, as brokers carry it: names are
// compared exactly, values are bytes.
type Header []HeaderField

// A HeaderField is one name and one value.
type HeaderField struct {
	Name  string
	Value []byte
}

// Get returns the first value of name, or "" when there is none.
func (h Header) Get(name string) string {
	for _, f := range h {
		if f.Name == name {
			return string(f.Value)
		}
	}
	return ""
}

// Values returns all values of name, in order.
func (h Header) Values(name string) [][]byte {
	var vs [][]byte
	for _, f := range h {
		if f.Name == name {
			vs = append(vs, f.Value)
		}
	}
	return vs
}

// Add appends a value.
func (h *Header) Add(name, value string) {
	*h = append(*h, HeaderField{Name: name, Value: []byte(value)})
}

// Set replaces all values of name by one, at the place of the first.
func (h *Header) Set(name, value string) {
	kept := make(Header, 0, len(*h)+1)
	done := false
	for _, f := range *h {
		if f.Name != name {
			kept = append(kept, f)
		} else if !done {
			kept, done = append(kept, HeaderField{Name: name, Value: []byte(value)}), true
		}
	}
	if !done {
		kept.Add(name, value)
	}
	*h = kept
}

// Del removes all values of name.
func (h *Header) Del(name string) {
	kept := make(Header, 0, len(*h))
	for _, f := range *h {
		if f.Name != name {
			kept = append(kept, f)
		}
	}
	*h = kept
}
