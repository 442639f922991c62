package kernhesreceiver

import (
	"cmp"
	"fmt"

	"go.uber.org/zap"

	"github.com/kernhes/kernhes/internal/wire"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/engine"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/flood"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/groups"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/identity"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/machine"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/rules"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/session"
)

// newEngines returns what begins the account of a process.
// archive says that a logs pipeline wants packed steps, sink takes final steps.
func newEngines(log *zap.Logger, cfg *Config, archive bool, sink engine.Sink, took func(engine.StepTime), ruleFiles *rules.Files, starts *identity.Starts) func(wire.Hello) session.Account {
	set := engine.Settings{
		StepTimeout: cfg.StepTimeout, Patterns: cfg.patterns(), CallDomains: cfg.CallDomains, BatchEdges: cfg.BatchEdges, KVEdges: cfg.KVEdges, Wall: cfg.StepHistogram.layout(),
		MaxStrings: cfg.MaxStrings, MaxRanges: cfg.MaxRanges, MaxShapes: cfg.MaxShapes, MaxSeries: cfg.MaxSeries,
		MaxSessionBytes: int(cfg.MaxSessionBytes), MaxTotalSeries: cfg.MaxTotalSeries,
		MaxTotalBytes: int(cmp.Or(cfg.MaxTotalBytes, machine.Memory()/4)), Lines: cfg.Dump != "", Archive: archive, Notice: logNotice(log), Rules: ruleFiles, Starts: starts,
		Sink: sink, StepTimes: took,
	}
	set.Groups, _ = groups.Of(cfg.Groups) // Validate has refused what is wrong
	engines := engine.NewEngines(set)
	return func(h wire.Hello) session.Account { return engines.Begin(h) }
}

// logNotice logs what an engine's account has to say: what it has to say again and again, once a minute for each process.
func logNotice(log *zap.Logger) func(engine.Notice) {
	guard := &flood.Guard{}
	return func(n engine.Notice) {
		of := flood.Kind{What: n.Message}
		fields := make([]zap.Field, 0, len(n.Pairs))
		for _, p := range n.Pairs {
			fields = append(fields, zap.Any(p.Key, p.Value))
			switch p.Key {
			case "session", "pid": // the last one given
				of.Who = fmt.Sprint(p.Value)
			case "limit":
				of.What += fmt.Sprint(p.Value)
			}
		}
		switch n.Level {
		case engine.LevelInfo:
			guard.Info(log, of, n.Message, fields...)
		case engine.LevelWarn:
			guard.Warn(log, of, n.Message, fields...)
		default:
			guard.Error(log, of, n.Message, fields...)
		}
	}
}
