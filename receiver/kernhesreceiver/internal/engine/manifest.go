package engine

import (
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/cupti"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/manifest"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/rules"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/span"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/step"
)

// takeManifest takes the manifest that an engine sends. A broken one is refused, and the last good one stays.
func (p *Process) takeManifest(body []byte) {
	m, err := manifest.Parse(body)
	if err != nil {
		p.notice(LevelWarn, "the engine's manifest is refused", Pair{"session", SessionName(p.session)}, Pair{"error", err})
		return
	}
	p.manifestFromEngine = true
	p.useManifest(m)
}

// useManifest has kernels classed by a manifest from now on.
func (p *Process) useManifest(m *manifest.Manifest) {
	if v := p.info["engine_version"]; v == "" || p.manifest != nil && v == versionOf(p.manifest) {
		p.info["engine_version"] = versionOf(m)
		p.renamed()
	}
	p.manifest = m
	clear(p.overrides)
	p.names.Reclass()
	p.steps.Reshape()
}

// versionOf is the engine's version where only its manifest tells it.
func versionOf(m *manifest.Manifest) string { return m.Version[:12] }

// useRules classes kernels by a ruleset, if it is new: those that come, and those of open steps. A manifest that the engine
// sent stays.
func (p *Process) useRules(now *rules.Ruleset) {
	if now == p.ruleset {
		return
	}
	before := p.ruleset
	p.ruleset = now
	p.names.Classify(now.Classes.Look)
	p.steps.Reshape()
	if now.Manifest != before.Manifest && !p.manifestFromEngine {
		p.useManifest(now.Manifest)
	}
}

// classes say what kernels count as: by the ruleset, and by a manifest that knows better.
type classes struct {
	ruleset            *rules.Ruleset
	manifest           *manifest.Manifest // nil: there is none
	manifestFromEngine bool
	overrides          map[override]span.Class
	matched            manifest.Memory
	mismatches         uint64 // kernels and launches that the manifest does not explain, once for each new shape
	reclass            func() // has kernels of names and graphs classed anew
}

// An override is a kernel of a call, by their numbers in the session, to which the manifest gives another class than its
// name.
type override struct{ call, name uint32 }

// maxOverrides bounds the class overrides of a session.
const maxOverrides = 1 << 16

// classShape classes the kernels of a new shape by the manifest. Where that gives another class than the name, it becomes an
// override. From then on device time has the class when the kernel's record comes.
func (c *classes) classShape(program string, positions []step.Position, of []step.Kernel) (changed bool) {
	if c.manifest == nil {
		return false
	}
	kernels := make([]manifest.Kernel, len(positions))
	for i := range positions {
		kernels[i] = manifest.Kernel{Call: positions[i].Call, Name: positions[i].Name}
	}
	meanings, mismatches := c.manifest.MatchIn(&c.matched, program, kernels)
	c.mismatches += uint64(mismatches)
	for i, m := range meanings {
		pos := &positions[i]
		pos.Op = m.Op
		if !m.Known {
			continue
		}
		of[i].By = span.ByManifest
		if m.Class == pos.Class && m.Fused == pos.Fused {
			continue
		}
		changed = changed || m.Class != pos.Class
		pos.Class, pos.Fused = m.Class, m.Fused
		if len(c.overrides) < maxOverrides {
			c.overrideClass(override{of[i].Call, of[i].Name}, m.Class)
		}
	}
	return changed
}

// overrideClass keeps the class of a kernel, also for graphs of other shapes that have it.
func (c *classes) overrideClass(k override, to span.Class) {
	if known, ok := c.overrides[k]; !ok || known != to {
		c.overrides[k] = to
		c.reclass()
	}
}

// by is what gave a kernel its class.
func (c *classes) by(call uint32, id uint32, name *cupti.Name) span.By {
	switch _, ok := c.overrides[override{call, id}]; {
	case ok:
		return span.ByManifest
	case name.Ruled:
		return span.ByRule
	}
	return span.ByDefault
}

// class is the class of a kernel with a name in a call.
func (c *classes) class(call uint32, id uint32, name *cupti.Name) span.Class {
	if len(c.overrides) > 0 {
		if c, ok := c.overrides[override{call, id}]; ok {
			return c
		}
	}
	return name.Class
}
