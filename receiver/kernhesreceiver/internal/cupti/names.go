package cupti

import (
	"github.com/kernhes/kernhes/internal/wire"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/span"
)

// A Name is a string of the session: a kernel's name with its class, or a range's text.
type Name struct {
	Text string

	// Of a kernel's name, by the rules of the table; see Kernel.
	Class span.Class
	Fused bool // communicates and computes
	Ruled bool // a rule fits
	rules uint32
}

// Strings takes a STRINGS body. Ids are given once, so a second text for one is ignored.
func (j *Joiner) Strings(body []byte) error {
	return wire.Strings(body, func(id uint32, text []byte) {
		if j.names[id] != nil {
			return
		}
		if j.Full || len(j.names) >= j.limits.Names || j.text+len(text) > averageName*j.limits.Names {
			j.Refused.Names++
			return
		}
		j.text += len(text)
		j.names[id] = &Name{Text: wire.Text(text)}
	})
}

// Text is the text of an id: empty where it is not known.
func (j *Joiner) Text(id uint32) string {
	if n, ok := j.names[id]; ok {
		return n.Text
	}
	return ""
}

// Kernel is the kernel name of an id, classed by the present rules: empty where the shim could not give it.
func (j *Joiner) Kernel(id uint32) *Name {
	n, ok := j.names[id]
	if !ok {
		n = &j.unknown
	}
	if n.rules != j.rules {
		n.rules = j.rules
		n.Class, n.Fused, n.Ruled = j.classify(n.Text)
	}
	return n
}

// Classify has kernel names classed by classify from now on.
func (j *Joiner) Classify(classify func(name string) (class span.Class, fused, ruled bool)) {
	j.classify = classify
	j.rules++
	j.Reclass()
}

// Reclass has the classes of graphs' nodes asked for anew, each graph's when it is replayed next.
func (j *Joiner) Reclass() { j.classes++ }
