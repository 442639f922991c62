// Package manifest turns what an engine says of its programs into the meaning of each kernel launch: op, class and name.
package manifest

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/span"
)

// A Manifest says what the launches of an engine's calls are. It is immutable; several sessions may share it.
type Manifest struct {
	// Version is the SHA-256 of the manifest's bytes, 64 hex digits.
	Version string
	// Model is its name for people, empty if there is none.
	Model string

	programs map[string]*program // kern's form; nil: the open form
	rules    []rule              // the open form
}

// A Meaning is what a manifest says of one kernel. The zero Meaning says nothing.
type Meaning struct {
	Op   string
	Name string // for people: "MoE group GEMM"; empty: the manifest has none
	// Known is false if the manifest does not say the class: then the kernel's name decides.
	Known bool
	Class span.Class // Compute, Comm or Spin
	Fused bool       // communicates and computes: its class is Comm
}

// A Kernel is one kernel of a step as far as a manifest cares.
type Kernel struct {
	Call string // label of its call, empty if it has none
	Name string // of the CUDA function, mangled or not
}

// Parse reads a manifest: kern's of schema 5, or the open one (README.md). An error names the place and the reason.
func Parse(body []byte) (*Manifest, error) {
	root, err := read(body)
	if err != nil {
		return nil, err
	}
	if err := root.is('{'); err != nil {
		return nil, err
	}
	m := &Manifest{}
	if root.get("kernhes_manifest") != nil {
		err = m.open(root)
	} else {
		err = m.kern(root)
	}
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(body)
	m.Version = hex.EncodeToString(sum[:])
	return m, nil
}

// Programs is how many programs the manifest has; 0 in the open form.
func (m *Manifest) Programs() int { return len(m.programs) }

// Match says what the kernels of one step are, in the order in which they were launched: once for each shape.
// Kernels meet calls by label; in a step without labels, by their order in the program. Mismatches is how many
// kernels met no launch, and how many launches that always make a kernel met none.
func (m *Manifest) Match(program string, kernels []Kernel) (meanings []Meaning, mismatches int) {
	return m.MatchIn(&Memory{}, program, kernels)
}

// MatchIn is Match with what is remembered of a session.
func (m *Manifest) MatchIn(memory *Memory, program string, kernels []Kernel) (meanings []Meaning, mismatches int) {
	meanings = make([]Meaning, len(kernels))
	if m.programs == nil {
		return meanings, m.matchRules(memory, kernels, meanings)
	}
	p := m.programs[program]
	if p == nil {
		return meanings, len(kernels)
	}
	return meanings, p.match(kernels, meanings)
}
