//! Certificates that the tests of several crates use.

/// A self-signed certificate of version 1, PEM.
pub const V1_CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----
MIIBFjCBvQIUGGzAUIBqw73GWlmL6BjwTei5tqAwCgYIKoZIzj0EAwIwDTELMAkG
A1UEAwwCdjEwIBcNMjYxMTIyMDkzMzQ3WhgPMjEyNjEwMjkwOTMzNDdaMA0xCzAJ
BgNVBAMMAnYxMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEl6oQnORUCnB+w9HP
cKaYwKybf+xqq7X9vjRXkdnqBA69Xz/4+Cr1GzGaUJCyotNSq5dGN55LTv9S7XfW
2bkR+zAKBggqhkjOPQQDAgNIADBFAiEA49D9UtQIeQBAMj0+Ld5/RYI+whyhZi4o
flEN0yze2jICICv1YRGgzm2ppOI7gJ1ZdvQnc9SeTch31shNebbVtXz9
-----END CERTIFICATE-----
";

/// Its key, PEM, made for tests alone.
pub const V1_KEY: &str = "-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgsG7G4P5GccZaA/w6
8edWYyCPpyAtl6YWMjHUmQJJjYyhRANCAASXqhCc5FQKcH7D0c9wppjArJt/7Gqr
tf2+NFeR2eoEDr1fP/j4KvUbMZpQkLKi01Krl0Y3nktO/1Ltd9bZuRH7
-----END PRIVATE KEY-----
";
