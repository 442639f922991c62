package kernhesreceiver

import (
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/kernhes/kernhes/internal/wire"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/engine"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/groups"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/identity"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/rules"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/session"
)

// newEngines returns what begins the account of a process.
// archive says that a logs pipeline wants packed steps, sink takes final steps.
func newEngines(log *zap.Logger, cfg *Config, archive bool, sink engine.Sink, ruleFiles *rules.Files, starts *identity.Starts) func(wire.Hello) session.Account {
	set := engine.Settings{
		StepTimeout: cfg.StepTimeout, Patterns: cfg.patterns(), CallDomains: cfg.CallDomains, BatchEdges: cfg.BatchEdges, KVEdges: cfg.KVEdges, Wall: cfg.StepHistogram.layout(),
		MaxStrings: cfg.MaxStrings, MaxRanges: cfg.MaxRanges, MaxShapes: cfg.MaxShapes, MaxSeries: cfg.MaxSeries,
		MaxSessionBytes: int(cfg.MaxSessionBytes), Lines: cfg.Dump != "", Archive: archive, Notice: logNotice(log), Rules: ruleFiles, Starts: starts,
		Sink: sink,
	}
	set.Groups, _ = groups.Of(cfg.Groups) // Validate has refused what is wrong
	engines := engine.NewEngines(set)
	return func(h wire.Hello) session.Account { return engines.Begin(h) }
}

// logNotice logs what an engine's account has to say.
func logNotice(log *zap.Logger) func(engine.Notice) {
	return func(n engine.Notice) {
		fields := make([]zap.Field, 0, len(n.Pairs))
		for _, p := range n.Pairs {
			fields = append(fields, zap.Any(p.Key, p.Value))
		}
		level := map[engine.Level]zapcore.Level{engine.LevelInfo: zap.InfoLevel, engine.LevelWarn: zap.WarnLevel, engine.LevelError: zap.ErrorLevel}[n.Level]
		log.Log(level, n.Message, fields...)
	}
}
