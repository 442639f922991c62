package kernhesreceiver

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/open-telemetry/opentelemetry-collector-contrib/extension/bearertokenauthextension"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/config/configauth"
	"go.opentelemetry.io/collector/config/confignet"
	"go.opentelemetry.io/collector/config/configopaque"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/config/configtls"
	"go.opentelemetry.io/collector/extension/extensiontest"
	"go.opentelemetry.io/collector/receiver/receivertest"

	"github.com/kernhes/kernhes/internal/wire"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/metadata"
	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/metrics/metricstest"
)

const secret = "s3cret-of-the-engines"

// A certified is a certificate for 127.0.0.1, signed by itself, and whom it convinces.
type certified struct {
	server configtls.ServerConfig
	client *tls.Config
}

func certify(t *testing.T) certified {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "kernhes test"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	keyDER, err := x509.MarshalECPrivateKey(key)
	require.NoError(t, err)
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	c := certified{client: &tls.Config{RootCAs: x509.NewCertPool()}}
	require.True(t, c.client.RootCAs.AppendCertsFromPEM(cert))
	c.server.CertPem = configopaque.String(cert)
	c.server.KeyPem = configopaque.String(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER}))
	return c
}

// A keeper is a host with the stock extension for bearer tokens.
type keeper struct {
	component.Host
	extensions map[component.ID]component.Component
}

func (k keeper) GetExtensions() map[component.ID]component.Component { return k.extensions }

func newKeeper(t *testing.T) keeper {
	t.Helper()
	factory := bearertokenauthextension.NewFactory()
	cfg := factory.CreateDefaultConfig().(*bearertokenauthextension.Config)
	cfg.BearerToken = secret
	e, err := factory.Create(t.Context(), extensiontest.NewNopSettings(factory.Type()), cfg)
	require.NoError(t, err)
	return keeper{componenttest.NewNopHost(), map[component.ID]component.Component{component.MustNewID("bearertokenauth"): e}}
}

func secureBench(t *testing.T) (*bench, *tls.Config) {
	t.Helper()
	c := certify(t)
	return newBenchOn(t, newKeeper(t), fakes, func(cfg *Config) {
		cfg.Transport, cfg.Endpoint = confignet.TransportTypeTCP, "127.0.0.1:0"
		cfg.TLS = configoptional.Some(c.server)
		cfg.Auth = configoptional.Some(configauth.Config{AuthenticatorID: component.MustNewID("bearertokenauth")})
	}), c.client
}

// tlsClient speaks TLS to the bench.
func (b *bench) tlsClient(with *tls.Config) *client {
	b.t.Helper()
	c, err := tls.Dial("tcp", b.r.server.Addr().String(), with)
	require.NoError(b.t, err)
	return b.client(c)
}

// TestAnEngineOverTLS is a session from HELLO to BYE, with a silence in which the receiver acknowledges by its own clock.
func TestAnEngineOverTLS(t *testing.T) {
	b, trust := secureBench(t)
	c := b.tlsClient(trust)
	c.write(hello(wire.Version, 1, "token", secret))
	c.read(wire.KindWelcome)
	c.word(1, "step a")
	c.ack(1)
	c.word(2, "outside")
	c.bye(3)
	c.ack(3)
	assert.Equal(t, []any{int64(1)}, metricstest.Points(b.sink.AllMetrics()...)["kern_kernels_total"]["in_step"])

	// Another connection of a session takes over while the first does not even read.
	first := b.tlsClient(trust)
	first.write(hello(wire.Version, 2, "token", secret))
	first.read(wire.KindWelcome)
	second := b.tlsClient(trust)
	second.write(hello(wire.Version, 2, "token", secret))
	second.read(wire.KindWelcome)
	second.bye(1)
	second.ack(1)

	for _, e := range b.logs.All() {
		for _, field := range e.Context {
			assert.NotContains(t, field.String, secret)
		}
	}
	for _, m := range b.sink.AllMetrics() {
		for _, r := range m.ResourceMetrics().All() {
			for k, v := range r.Resource().Attributes().All() {
				assert.NotContains(t, v.AsString(), secret, k)
			}
		}
	}
}

func TestWhoIsNotHeardOverTLS(t *testing.T) {
	b, trust := secureBench(t)
	refused := int64(0)
	check := func(c *client, first []byte, answer, log string) {
		t.Helper()
		c.write(first)
		_ = c.SetReadDeadline(time.Now().Add(waitFor))
		assert.Contains(t, c.closed(), answer)
		refused++
		require.Eventually(t, func() bool { return b.number("kernhes_connections_refused") == refused }, waitFor, tick)
		last := b.logs.FilterMessage("connection refused").All()
		assert.Contains(t, last[len(last)-1].ContextMap()["reason"], log)
	}
	check(b.tlsClient(trust), hello(wire.Version, 1), "KERNHES_TOKEN is missing or wrong", "KERNHES_TOKEN")
	check(b.tlsClient(trust), hello(wire.Version, 1, "token", "s3cret"), "KERNHES_TOKEN is missing or wrong", "KERNHES_TOKEN")
	check(b.tlsClient(trust), hello(wire.Version, 1, "token", secret+"\x00"), "KERNHES_TOKEN is missing or wrong", "KERNHES_TOKEN")
	assert.Empty(t, b.r.sessions.Live(time.Now()), "who may not come has no session")

	// Plain text is no handshake.
	plain := b.dial()
	plain.write(hello(wire.Version, 1, "token", secret))
	_, _ = io.Copy(io.Discard, plain)
	require.Eventually(t, func() bool { return b.number("kernhes_connections_refused") == refused+1 }, waitFor, tick)
	last := b.logs.FilterMessage("connection refused").All()
	assert.Contains(t, last[len(last)-1].ContextMap()["reason"], "tls")
}

// TestClientCertificates: that engines show one is asked for by the collector's own setting, whose errors come through.
func TestClientCertificates(t *testing.T) {
	c := certify(t)
	cfg := createDefaultConfig().(*Config)
	cfg.Transport, cfg.Endpoint = confignet.TransportTypeTCP, "127.0.0.1:0"
	cfg.TLS = configoptional.Some(c.server)
	cfg.TLS.Get().ClientCAFile = t.TempDir() + "/missing.pem"
	r, err := newReceiver(receivertest.NewNopSettings(metadata.Type), cfg, nil)
	require.NoError(t, err)
	err = r.Start(t.Context(), componenttest.NewNopHost())
	require.ErrorContains(t, err, "tls: ")
	require.ErrorContains(t, err, "missing.pem")
}

func TestAnAuthenticatorThatIsMissingIsSaid(t *testing.T) {
	cfg := createDefaultConfig().(*Config)
	cfg.Endpoint = t.TempDir() + "/k.sock"
	cfg.Auth = configoptional.Some(configauth.Config{AuthenticatorID: component.MustNewID("bearertokenauth")})
	r, err := newReceiver(receivertest.NewNopSettings(metadata.Type), cfg, nil)
	require.NoError(t, err)
	require.ErrorContains(t, r.Start(t.Context(), componenttest.NewNopHost()), "auth: ")
	require.NoError(t, r.Shutdown(t.Context()))
}

func TestTCPThatOtherHostsReachNeedsTLS(t *testing.T) {
	cfg, err := load(t, "kernhes/secure")
	require.NoError(t, err)
	require.NoError(t, cfg.Validate())
	require.True(t, cfg.TLS.HasValue())
	require.Equal(t, "bearertokenauth", cfg.Auth.Get().AuthenticatorID.String())
	check := func(endpoint string, open bool) {
		t.Helper()
		cfg := createDefaultConfig().(*Config)
		cfg.Transport, cfg.Endpoint = confignet.TransportTypeTCP, endpoint
		err := cfg.Validate()
		assert.Equal(t, open, err != nil && strings.Contains(err.Error(), "tls: missing"), "%s: %v", endpoint, err)
		if open {
			cfg.TLS = configoptional.Some(configtls.ServerConfig{})
			assert.NoError(t, cfg.Validate())
		}
	}
	check("127.0.0.1:1", false)
	check("127.9.9.9:1", false)
	check("[::1]:1", false)
	check("localhost:1", false)
	check("0.0.0.0:1", true)
	check(":1", true)
	check("[::]:1", true)
	check("10.0.0.7:1", true)
	check("localhost.example.com:1", true)
	check("::1", false) // no host:port at all, which is said
	cfg = createDefaultConfig().(*Config)
	cfg.TLS = configoptional.Some(configtls.ServerConfig{})
	assert.ErrorContains(t, cfg.Validate(), "tls: only on TCP")
}
