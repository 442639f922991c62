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
	p.useManifest(m)
}

// useManifest has kernels classed by a manifest from the next new shape on.
func (p *process) useManifest(m *manifest.Manifest) {
	p.manifest = m
	p.steps.Reshape()
	if p.info["engine_version"] == "" {
		p.info["engine_version"] = m.Version[:12]
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
		if !m.Known || m.Class == pos.Class && m.Fused == pos.Fused {
			continue
		}
		changed = changed || m.Class != pos.Class
		pos.Class, pos.Fused = m.Class, m.Fused
		if len(p.learned) < maxLearned {
			p.learned[learned{calls[i], pos.Static.Name()}] = m.Class
		}
	}
	return changed
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
