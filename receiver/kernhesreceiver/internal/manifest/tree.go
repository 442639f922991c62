package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/kernhes/kernhes/internal/wire"
)

// Bounds of what is read. The largest manifest known has some 12,000 calls and 400,000 values; schema 5 nests 12 deep.
const (
	maxBytes  = 16 << 20 // one frame's body
	maxValues = 1_000_000
	maxDepth  = 64
	maxText   = 4096 // bytes of one string
)

// A value is a JSON value that knows where it stands. Unlike encoding/json's structs it tells keys apart
// by case, and a key that occurs twice is an error.
type value struct {
	path *path
	text string // of a string; the digits of a number
	list []*value
	keys []string // of an object, beside list
	kind byte     // one of {["0tn: object, array, string, number, bool, null
}

// A path is where a value stands, from the inside out.
type path struct {
	outer *path
	key   string
	index int // in an array, where key is empty
}

func (p *path) String() string {
	switch {
	case p == nil:
		return ""
	case p.key == "":
		return fmt.Sprintf("%s[%d]", p.outer, p.index)
	case p.outer == nil:
		return p.key
	}
	return p.outer.String() + "." + p.key
}

// fault is an error about v.
func (v *value) fault(format string, args ...any) error {
	place := v.path.String()
	if place == "" {
		place = "manifest"
	}
	if len(place) > 300 {
		place = "…" + place[len(place)-300:]
	}
	return fmt.Errorf("%s: %w", quoteless(place), fmt.Errorf(format, args...))
}

// quoteless makes hostile keys printable.
func quoteless(s string) string {
	q := strconv.Quote(s)
	return q[1 : len(q)-1]
}

// read makes a tree of a JSON text.
func read(body []byte) (*value, error) {
	if len(body) > maxBytes {
		return nil, fmt.Errorf("manifest: %d bytes, at most %d", len(body), maxBytes)
	}
	if !utf8.Valid(body) {
		return nil, errors.New("manifest: is not UTF-8")
	}
	r := reader{dec: json.NewDecoder(bytes.NewReader(body))}
	r.dec.UseNumber()
	v, err := r.value(nil, 0)
	if err == nil {
		if _, more := r.dec.Token(); more != io.EOF {
			err = errors.New("more than one JSON value")
		}
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.New("ends too early")
	}
	if err != nil {
		return nil, fmt.Errorf("manifest at byte %d: %w", r.dec.InputOffset(), err)
	}
	return v, nil
}

type reader struct {
	dec   *json.Decoder
	count int
}

// value reads the next value, which stands at p.
func (r *reader) value(p *path, depth int) (*value, error) {
	token, err := r.dec.Token()
	if err != nil {
		return nil, err
	}
	if r.count++; r.count > maxValues {
		return nil, fmt.Errorf("more than %d values", maxValues)
	}
	v := &value{path: p}
	switch t := token.(type) {
	case json.Delim:
		if depth == maxDepth {
			return nil, fmt.Errorf("nested deeper than %d", maxDepth)
		}
		v.kind = byte(t)
		if t == '{' {
			return v, r.object(v, depth)
		}
		return v, r.array(v, depth)
	case string:
		if len(t) > maxText {
			return nil, v.fault("a string of %d bytes, at most %d", len(t), maxText)
		}
		v.kind, v.text = '"', wire.Text(t)
	case json.Number:
		v.kind, v.text = '0', t.String()
	case bool:
		v.kind, v.text = 't', strconv.FormatBool(t)
	default:
		v.kind = 'n'
	}
	return v, nil
}

func (r *reader) object(v *value, depth int) error {
	var seen map[string]bool // of an object with many keys
	for r.dec.More() {
		token, err := r.dec.Token()
		if err != nil {
			return err
		}
		key := token.(string) // the decoder takes no other
		if len(v.keys) == 16 {
			seen = set(v.keys...)
		}
		if key == "" || len(key) > maxText || seen[key] || seen == nil && slices.Contains(v.keys, key) {
			return v.fault("key %.100q is empty, too long or there twice", key)
		}
		if seen != nil {
			seen[key] = true
		}
		inner, err := r.value(&path{outer: v.path, key: key}, depth+1)
		if err != nil {
			return err
		}
		v.keys, v.list = append(v.keys, key), append(v.list, inner)
	}
	_, err := r.dec.Token()
	return err
}

func (r *reader) array(v *value, depth int) error {
	for r.dec.More() {
		inner, err := r.value(&path{outer: v.path, index: len(v.list)}, depth+1)
		if err != nil {
			return err
		}
		v.list = append(v.list, inner)
	}
	_, err := r.dec.Token()
	return err
}

// get is an object's member, or nil.
func (v *value) get(key string) *value {
	for i, k := range v.keys {
		if k == key {
			return v.list[i]
		}
	}
	return nil
}

var kindNames = map[byte]string{'{': "an object", '[': "an array", '"': "a string", '0': "a number", 't': "true or false", 'n': "null"}

// is wants v to be of a kind.
func (v *value) is(kind byte) error {
	if v.kind != kind {
		return v.fault("is %s, want %s", kindNames[v.kind], kindNames[kind])
	}
	return nil
}

// object wants v to be an object of these fields: the required ones (marked !) and any of the others.
func (v *value) object(f fields) error {
	if err := v.is('{'); err != nil {
		return err
	}
	for _, key := range v.keys {
		if _, ok := f[key]; !ok {
			return v.fault("unknown key %.100q", key)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(f)) {
		if f[key][0] == '!' && v.get(key) == nil {
			return v.fault("key %q is missing", key)
		}
	}
	return nil
}

// fields are the keys of an object, with what is made of each: "!" first if it must be there. Keys that say
// nothing of launches are ignored knowingly: "-" and why.
type fields map[string]string
