package kernhesreceiver

import (
	"go.uber.org/zap"

	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/cupti"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/manifest"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/span"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/step"
)

// takeManifest takes the manifest that an engine sends. A broken one is refused, and the last good one stays.
func (p *process) takeManifest(body []byte) {
	m, err := manifest.Parse(body)
	if err != nil {
		p.set.log.Warn("the engine's manifest is refused", zap.String("session", sessionName(p.session)), zap.Error(err))
		return
	}
	p.own = true
	p.useManifest(m)
}

// useManifest has kernels classed by a manifest from now on.
func (p *process) useManifest(m *manifest.Manifest) {
	if v := p.info["engine_version"]; v == "" || p.manifest != nil && v == versionOf(p.manifest) {
		p.info["engine_version"] = versionOf(m)
		p.renamed()
	}
	p.manifest = m
	clear(p.learned)
	p.names.Reclass()
	p.steps.Reshape()
}

// versionOf is the engine's version where only its manifest tells it.
func versionOf(m *manifest.Manifest) string { return m.Version[:12] }

// hear classes kernels by what the user's files say, if that is new: those that come, and those of steps that are open.
// A manifest that the engine sent stays.
func (p *process) hear(s *saying) {
	if s == p.heard {
		return
	}
	before := p.heard
	p.heard = s
	p.names.Classify(s.rules.Look)
	p.steps.Reshape()
	if s.manifest != before.manifest && !p.own {
		p.useManifest(s.manifest)
	}
}

// A learned kernel is one of a call, by their numbers in the session.
type learned struct{ call, name uint32 }

// maxLearned bounds what is kept of a manifest's meanings.
const maxLearned = 1 << 16

// judge says by the manifest what the kernels of a new shape are. A class that a name did not tell is
// learned: from then on it is known when the kernel's record comes, so device time knows it too.
func (p *process) judge(program string, positions []step.Position, calls []uint32) (changed bool) {
	if p.manifest == nil {
		return false
	}
	kernels := make([]manifest.Kernel, len(positions))
	for i := range positions {
		kernels[i] = manifest.Kernel{Call: positions[i].Call, Name: positions[i].Name}
	}
	meanings, mismatches := p.manifest.Match(program, kernels)
	p.mismatches += uint64(mismatches)
	for i, m := range meanings {
		pos := &positions[i]
		pos.Op = m.Op
		if !m.Known {
			continue
		}
		pos.By = span.ByManifest
		if m.Class == pos.Class && m.Fused == pos.Fused {
			continue
		}
		changed = changed || m.Class != pos.Class
		pos.Class, pos.Fused = m.Class, m.Fused
		if len(p.learned) < maxLearned {
			p.learn(learned{calls[i], pos.Static.Name()}, m.Class)
		}
	}
	return changed
}

// learn keeps the class of a kernel; graphs that have it, of whatever shape, are to know.
func (p *process) learn(k learned, c span.Class) {
	if known, ok := p.learned[k]; !ok || known != c {
		p.learned[k] = c
		p.names.Reclass()
	}
}

// by is what gave a kernel its class.
func (p *process) by(call uint32, id uint32, name *cupti.Name) span.By {
	switch _, ok := p.learned[learned{call, id}]; {
	case ok:
		return span.ByManifest
	case name.Ruled:
		return span.ByRule
	}
	return span.ByDefault
}

// class is the class of a kernel with a name in a call.
func (p *process) class(call uint32, id uint32, name *cupti.Name) span.Class {
	if len(p.learned) > 0 {
		if c, ok := p.learned[learned{call, id}]; ok {
			return c
		}
	}
	return name.Class
}
