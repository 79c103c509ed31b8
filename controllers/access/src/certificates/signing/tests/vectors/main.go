// Writes vectors.json: certificates that Kubernetes's signer makes, which ours must equal. See the head of ../vectors.rs.
package main

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"os"
	"time"

	capi "k8s.io/api/certificates/v1"
	"k8s.io/kubernetes/pkg/controller/certificates/authority"
)

var now = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

type vector struct {
	Name        string   `json:"name"`
	CA          string   `json:"ca"`
	Key         string   `json:"key"`
	Request     string   `json:"request"`
	Usages      []string `json:"usages"`
	TTL         int64    `json:"ttl"`
	Now         int64    `json:"now"`
	Certificate string   `json:"certificate,omitempty"`
	Error       string   `json:"error,omitempty"`
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func toPEM(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

type ca struct {
	cert *x509.Certificate
	key  crypto.Signer
	pem  string
	keys string
}

func newCA(subject pkix.Name, key crypto.Signer, keyPEM string, ski []byte, notAfter time.Time) ca {
	template := &x509.Certificate{
		SerialNumber: big.NewInt(7), Subject: subject, NotBefore: now.AddDate(-1, 0, 0), NotAfter: notAfter,
		IsCA: len(ski) > 0, BasicConstraintsValid: true, SubjectKeyId: ski, KeyUsage: x509.KeyUsageCertSign,
	}
	der := must(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key))
	return ca{must(x509.ParseCertificate(der)), key, toPEM("CERTIFICATE", der), keyPEM}
}

func csr(template *x509.CertificateRequest, key crypto.Signer) []byte {
	return must(x509.CreateCertificateRequest(rand.Reader, template, key))
}

func san(names ...asn1.RawValue) pkix.Extension {
	return pkix.Extension{Id: asn1.ObjectIdentifier{2, 5, 29, 17}, Value: must(asn1.Marshal(names))}
}

func name(tag int, value string) asn1.RawValue {
	return asn1.RawValue{Class: 2, Tag: tag, Bytes: []byte(value)}
}

func attribute(last int, tag int, value []byte) pkix.AttributeTypeAndValue {
	return pkix.AttributeTypeAndValue{
		Type:  asn1.ObjectIdentifier{2, 5, 4, last},
		Value: asn1.RawValue{Tag: tag, Bytes: value},
	}
}

func main() {
	rsaKey := must(rsa.GenerateKey(rand.Reader, 2048))
	p256 := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	p384 := must(ecdsa.GenerateKey(elliptic.P384(), rand.Reader))
	_, edKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		panic(err)
	}
	pkcs8 := func(key any) string { return toPEM("PRIVATE KEY", must(x509.MarshalPKCS8PrivateKey(key))) }
	far := now.AddDate(10, 0, 0)
	cn := func(name string) pkix.Name { return pkix.Name{CommonName: name} }
	rsaPKCS1 := newCA(cn("kubernetes"), rsaKey, toPEM("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(rsaKey)), []byte{1, 2, 3, 4}, far)
	rsaPKCS8 := newCA(cn("kubernetes"), rsaKey, pkcs8(rsaKey), []byte{1, 2, 3, 4}, far)
	sec1 := "-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n" +
		toPEM("EC PRIVATE KEY", must(x509.MarshalECPrivateKey(p256)))
	ecSEC1 := newCA(pkix.Name{Organization: []string{"a", "b"}, CommonName: "ca"}, p256, sec1, []byte{9}, far)
	ecPKCS8 := newCA(cn("p384"), p384, pkcs8(p384), nil, time.Date(2060, 1, 2, 3, 4, 5, 0, time.UTC))
	edCA := newCA(cn("ed"), edKey, pkcs8(edKey), []byte{5}, now.Add(2*time.Hour))
	ecPKCS8P256 := newCA(cn("p256"), p256, pkcs8(p256), []byte{6}, far)
	sec1P384 := newCA(cn("sec1 p384"), p384, toPEM("EC PRIVATE KEY", must(x509.MarshalECPrivateKey(p384))), []byte{6}, far)
	expired := newCA(cn("expired"), rsaKey, pkcs8(rsaKey), nil, now)

	requestRSA := must(rsa.GenerateKey(rand.Reader, 2048))
	requestEC := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	request384 := must(ecdsa.GenerateKey(elliptic.P384(), rand.Reader))
	_, requestEd, _ := ed25519.GenerateKey(rand.Reader)
	node := pkix.Name{Organization: []string{"system:nodes"}, CommonName: "system:node:n1"}
	client := []string{"digital signature", "client auth"}
	year := int64(365 * 24 * 3600)

	var vectors []vector
	add := func(name string, by ca, request []byte, usages []string, ttl int64) {
		v := vector{Name: name, CA: by.pem, Key: by.keys, Request: toPEM("CERTIFICATE REQUEST", request), Usages: usages, TTL: ttl, Now: now.Unix()}
		var all []capi.KeyUsage
		for _, usage := range usages {
			all = append(all, capi.KeyUsage(usage))
		}
		signer := &authority.CertificateAuthority{Certificate: by.cert, PrivateKey: by.key}
		der, err := signer.Sign(request, authority.PermissiveSigningPolicy{
			TTL: time.Duration(ttl) * time.Second, Usages: all, Backdate: 5 * time.Minute, Short: 8 * time.Hour,
			Now: func() time.Time { return now },
		})
		if err != nil {
			v.Error = err.Error()
		} else {
			v.Certificate = toPEM("CERTIFICATE", der)
		}
		vectors = append(vectors, v)
	}

	add("a kubelet's client certificate", rsaPKCS1, csr(&x509.CertificateRequest{Subject: node}, requestEC), client, year)
	add("an RSA key in PKCS#8", rsaPKCS8, csr(&x509.CertificateRequest{Subject: node}, requestRSA), client, 3600)
	uri := must(url.Parse("spiffe://cluster.local/ns/a/sa/b"))
	add("a kubelet's serving certificate", ecSEC1, csr(&x509.CertificateRequest{
		Subject: node, DNSNames: []string{"n1", "n1.example.com"},
		IPAddresses: []net.IP{net.ParseIP("192.0.2.1"), net.ParseIP("2001:db8::1")},
	}, requestRSA), []string{"digital signature", "key encipherment", "server auth"}, year)
	add("names of all kinds in any order", ecPKCS8P256, csr(&x509.CertificateRequest{
		Subject: cn("x"),
		ExtraExtensions: []pkix.Extension{san(
			name(6, uri.String()), name(7, "\x0a\x00\x00\x01"), name(1, "a@example.com"), name(2, "b.example.com"),
			name(8, "\x2a\x03"), name(2, "a.example.com"), name(7, "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\x0a\x00\x00\x02"),
			name(6, "mailto:a@example.com"), name(2, ""),
		)},
	}, request384), client, year)
	add("a subject of all kinds", rsaPKCS1, csr(&x509.CertificateRequest{Subject: pkix.Name{
		Country: []string{"DE"}, Organization: []string{"team-b", "team-a", "tèam"}, OrganizationalUnit: []string{"u*", "u&"},
		Locality: []string{"Berlin"}, Province: []string{"BE"}, StreetAddress: []string{"Straße 1"}, PostalCode: []string{"10115"},
		SerialNumber: "42", CommonName: "jürgen",
		ExtraNames: []pkix.AttributeTypeAndValue{
			{Type: asn1.ObjectIdentifier{0, 9, 2342, 19200300, 100, 1, 25}, Value: "example"},
			{Type: asn1.ObjectIdentifier{2, 5, 4, 4}, Value: "surname"},
		},
	}}, requestEd), client, year)
	add("a subject in many string types, with two common names", rsaPKCS1, csr(&x509.CertificateRequest{
		RawSubject: must(asn1.Marshal(pkix.RDNSequence{
			{attribute(3, 19, []byte("first"))},
			{attribute(10, 30, []byte{0, 'b', 0, 'm', 0x20, 0xac})},
			{attribute(10, 20, []byte("teletex"))}, {attribute(10, 22, []byte("ia5"))}, {attribute(10, 18, []byte("12 34"))},
			{attribute(3, 12, []byte("second")), attribute(11, 12, []byte("unit"))},
		})),
	}, requestEC), client, year)
	add("no subject", rsaPKCS1, csr(&x509.CertificateRequest{DNSNames: []string{"a"}}, requestEC), client, year)
	add("the subject of the issuer", rsaPKCS1, csr(&x509.CertificateRequest{Subject: cn("kubernetes")}, requestEC), client, year)
	add("all usages", rsaPKCS1, csr(&x509.CertificateRequest{Subject: cn("x")}, requestEC), []string{
		"signing", "digital signature", "content commitment", "key encipherment", "key agreement", "data encipherment",
		"cert sign", "crl sign", "encipher only", "decipher only", "netscape sgc", "microsoft sgc", "ocsp signing",
		"timestamping", "ipsec user", "ipsec tunnel", "ipsec end system", "s/mime", "email protection", "code signing",
		"client auth", "server auth", "any",
	}, year)
	add("no usages", rsaPKCS1, csr(&x509.CertificateRequest{Subject: cn("x")}, requestEC), nil, year)
	add("only a usage of a key", rsaPKCS1, csr(&x509.CertificateRequest{Subject: cn("x")}, requestEC), []string{"key agreement"}, year)
	add("beyond 2050, by an authority without a key identifier", ecPKCS8, csr(&x509.CertificateRequest{Subject: cn("x")}, request384), client, 30*year)
	add("no longer than the authority", edCA, csr(&x509.CertificateRequest{Subject: cn("x")}, requestEd), client, year)
	add("short", edCA, csr(&x509.CertificateRequest{Subject: cn("x")}, requestEC), client, 600)
	add("just not short", rsaPKCS1, csr(&x509.CertificateRequest{Subject: cn("x")}, requestEC), client, 8*3600)
	add("just short", rsaPKCS1, csr(&x509.CertificateRequest{Subject: cn("x")}, requestEC), client, 8*3600-1)
	add("a P-384 key in SEC1", sec1P384, csr(&x509.CertificateRequest{Subject: cn("x")}, requestEC), client, year)
	for _, algorithm := range []x509.SignatureAlgorithm{x509.SHA384WithRSA, x509.SHA512WithRSA} {
		add("signed with "+algorithm.String(), rsaPKCS1, csr(&x509.CertificateRequest{Subject: cn("x"), SignatureAlgorithm: algorithm}, requestRSA), client, year)
	}
	for _, algorithm := range []x509.SignatureAlgorithm{x509.ECDSAWithSHA384, x509.ECDSAWithSHA256} {
		key := requestEC
		if algorithm == x509.ECDSAWithSHA256 {
			key = request384
		}
		add("signed with "+algorithm.String()+" of the other curve", rsaPKCS1, csr(&x509.CertificateRequest{Subject: cn("x"), SignatureAlgorithm: algorithm}, key), client, year)
	}
	add("an extension that is dropped", rsaPKCS1, csr(&x509.CertificateRequest{Subject: cn("x"), ExtraExtensions: []pkix.Extension{
		{Id: asn1.ObjectIdentifier{2, 5, 29, 19}, Critical: true, Value: []byte{0x30, 3, 1, 1, 0xff}},
		{Id: asn1.ObjectIdentifier{1, 2, 3}, Critical: true, Value: []byte{5, 0}},
	}}, requestEC), client, year)

	plain := csr(&x509.CertificateRequest{Subject: cn("x")}, requestEC)
	broken := bytes.Clone(plain)
	broken[len(broken)-1] ^= 1
	add("a broken signature", rsaPKCS1, broken, client, year)
	other := must(x509.ParseCertificateRequest(csr(&x509.CertificateRequest{Subject: cn("y")}, requestEC)))
	swapped := bytes.Replace(plain, must(x509.ParseCertificateRequest(plain)).RawSubject, other.RawSubject, 1)
	add("another subject than was signed", rsaPKCS1, swapped, client, year)
	add("bytes after the request", rsaPKCS1, append(bytes.Clone(plain), 0), client, year)
	add("a request that is cut off", rsaPKCS1, plain[:len(plain)-5], client, year)
	add("an unknown usage", rsaPKCS1, plain, []string{"client auth", "world domination"}, year)
	add("an expired authority", expired, plain, client, year)
	extension := func(values ...pkix.Extension) []byte {
		return csr(&x509.CertificateRequest{Subject: cn("x"), ExtraExtensions: values}, requestEC)
	}
	add("an address of three bytes", rsaPKCS1, extension(san(name(7, "abc"))), client, year)
	add("a DNS name that is not ASCII", rsaPKCS1, extension(san(name(2, "ü"))), client, year)
	add("an email address that is not ASCII", rsaPKCS1, extension(san(name(1, "ü@a"))), client, year)
	add("a URI that is not ASCII", rsaPKCS1, extension(san(name(6, "http://ü"))), client, year)
	add("a URI whose domain ends in a dot", rsaPKCS1, extension(san(name(6, "http://a./"))), client, year)
	add("a URI whose domain has an empty label", rsaPKCS1, extension(san(name(6, "http://a..b/"))), client, year)
	add("a URI with a bad escape", rsaPKCS1, extension(san(name(6, "http://a/%zz"))), client, year)
	add("a URI without a scheme before the colon", rsaPKCS1, extension(san(name(6, ":a"))), client, year)
	add("names that are no sequence", rsaPKCS1, extension(pkix.Extension{Id: asn1.ObjectIdentifier{2, 5, 29, 17}, Value: []byte{4, 1, 1}}), client, year)
	add("names twice", rsaPKCS1, extension(san(name(2, "a")), san(name(2, "b"))), client, year)

	out, _ := json.MarshalIndent(vectors, "", " ")
	if err := os.WriteFile("vectors.json", append(out, '\n'), 0o644); err != nil {
		panic(err)
	}
}
