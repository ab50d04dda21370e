import Foundation
import Testing

@testable import MegatonHTTP
@testable import MegatonPipeline

@Suite struct URLPolicyTests {
    private func allows(_ rules: [String], _ text: String) throws -> Bool {
        var policy = URLPolicy()
        policy.schemes.insert("s3")
        policy.sources = try rules.map { try SourceRule($0) }
        guard let url = URL(string: text) else { return false }
        do {
            try policy.check(url)
            return true
        } catch {
            return false
        }
    }

    @Test(arguments: [
        ("example.com", "http://example.com/a"), ("example.com", "https://EXAMPLE.com/a"),
        ("EXAMPLE.com", "https://example.com:443/a"), ("example.com", "http://example.com:80"),
        ("example.com", "http://example.com./a"), ("example.com.", "http://example.com/a"),
        ("example.com", "http://ex%61mple.com/a"), ("*.example.com", "http://a.example.com/"),
        ("*.example.com", "http://a.b.example.com/"), ("bücher.example", "http://bücher.example/a"),
        ("xn--bcher-kva.example", "http://bücher.example/a"), ("bücher.example", "http://XN--bcher-KVA.example/a"),
        ("example.com:8080", "http://example.com:8080/"), ("example.com:*", "https://example.com:8443/"),
        ("https://example.com", "https://example.com/"), ("example.com/images", "http://example.com/images"),
        ("example.com/images", "http://example.com/images/a/b.jpg?x=../y"),
        ("example.com/images/", "http://example.com/images/a.jpg"), ("example.com/ü", "http://example.com/%C3%BC/a"),
        ("example.com/images", "http://example.com/%69mages/a"), ("192.0.2.1", "http://192.0.2.1/"),
        ("192.0.2.1", "http://3221225985/"), ("[2001:db8::1]", "http://[2001:DB8:0::1]/"),
        ("[2001:db8::1]:8080", "http://[2001:db8::1]:8080/"), ("s3://bucket/in", "s3://bucket/in/a.jpg"),
        ("example.com", "http://example.com#@evil.test/"), ("example.com", "http://example.com?@evil.test/"),
    ])
    func letsSourcesPass(_ rule: String, _ url: String) throws {
        #expect(try allows([rule], url))
        #expect(try allows(["other.example", rule], url))
        #expect(try allows([], url))
    }

    // One of the host names has a Cyrillic letter.
    @Test(arguments: [
        ("example.com", "http://example.com@evil.test/"), ("example.com", "http://example.com:80@evil.test/"),
        ("example.com", "http://example.com.evil.test/"), ("example.com", "http://evilexample.com/"),
        ("example.com", "http://a.example.com/"), ("example.com", "http://example.com:8080/"),
        ("example.com", "http://example.com\\@evil.test/"), ("example.com", "http://evil.test\\@example.com/"),
        ("example.com", "http://evil.test/example.com"), ("example.com", "http://evil.test#example.com"),
        ("example.com", "http:///example.com/"), ("example.com", "http:example.com"), ("example.com", "//example.com/"),
        ("example.com", "http://example.com../a"), ("example.com", "http://example.com%2Eevil.test/"),
        ("example.com", "http://example.com%00.evil.test/"), ("example.com", "http://exаmple.com/"),
        ("*.example.com", "http://example.com/"), ("*.example.com", "http://aexample.com/"),
        ("*.example.com", "http://a.example.com.evil.test/"), ("*.example.com", "http://.example.com.evil.test/"),
        ("https://example.com", "http://example.com/"), ("example.com", "s3://example.com/a"),
        ("bücher.example", "http://bucher.example/"), ("example.com/images", "http://example.com/images2/a"),
        ("example.com/images", "http://example.com/"), ("example.com/images", "http://example.com/Images/a"),
        ("example.com/images", "http://example.com/images/../a"),
        ("example.com/images", "http://example.com/images/%2e%2e/a"),
        ("example.com/images", "http://example.com/images/.%2E/a"),
        ("example.com/images", "http://example.com/images/%252e%252e/a"),
        // Fault: a byte that is not UTF-8 hid all that is encoded beside it.
        ("example.com/images", "http://example.com/images/%FF/%2e%2e/%2e%2e/a"),
        ("example.com/images", "http://example.com/images/%FF/..%2fa"),
        ("example.com/images", "http://example.com/images/%25FF/%252e%252e/a"),
        ("example.com/images", "http://example.com/images/%e9%2f%2e%2e%2fa"),
        ("example.com/images", "http://example.com/images/..%2fa"),
        ("example.com/images", "http://example.com/images/..%5ca"),
        ("example.com/images", "http://example.com/images%2fa"), ("example.com/images", "http://example.com//images/a"),
        ("example.com/images", "http://example.com/images/%00/a"), ("[fe80::1]", "http://[fe80::1%25eth0]/"),
        ("127.0.0.1", "http://127.0.0.2/"), ("s3://bucket/in", "s3://bucket/out/a"), ("s3://bucket", "s3://bucket2/a"),
        ("s3://bucket", "http://bucket/a"),
    ])
    func keepsOthersOut(_ rule: String, _ url: String) throws {
        #expect(try !allows([rule], url))
    }

    @Test(arguments: [
        "", "*", "*.", "a*b.example", "*.*.example", "example.com/../a", "example.com/%2e%2e", "user@example.com",
        "gopher://example.com", "example.com?x", "example.com#x", "example.com:port", "*:*", "http://", "a b.example",
    ])
    func anInvalidRuleIsRefused(_ text: String) {
        #expect { try SourceRule(text) } throws: { ($0 as? ImagePipeline.Error)?.code == .invalidURL }
    }

    /// Fault: what another worker had fetched from such an address was answered from the cache that they share.
    @Test(arguments: [
        "http://127.0.0.1/a", "https://2130706433/a", "http://0x7f.1:8080/a", "http://[::1]/a", "http://10.1.2.3/a",
        "http://[::ffff:10.1.2.3]/a", "http://localhost/a", "http://LOCALHOST.:81/a", "http://a.localhost/a",
        "http://169.254.169.254/latest", "http://8.8.8.8:8080/a", "ftp://8.8.8.8:2121/a",
    ])
    func addressesInURLsAreChecked(_ text: String) throws {
        let url = try #require(URL(string: text))
        var policy = URLPolicy()
        policy.schemes.insert("ftp")
        #expect(throws: Never.self) { try policy.check(url) }
        policy.addresses = AddressPolicy()
        #expect { try policy.check(url) } throws: { error in
            let error = error as? ImagePipeline.Error
            return error?.code == .forbidden && error?.message.contains("AddressPolicy.") == true
        }
        policy.addresses = AddressPolicy(allowsPrivate: true, ports: [80, 443, 8080, 2121])
        #expect(throws: Never.self) { try policy.check(url) }
    }

    /// The addresses of a name are known when a connection is made; the name of a bucket is no address.
    @Test(arguments: [
        "http://example.com:8080/a", "https://8.8.8.8/a", "http://[2606:4700::1]/a", "s3://127.0.0.1/a", "data:,a",
        "http://localhost.example.com/a",
    ])
    func otherHostsPass(_ text: String) throws {
        var policy = URLPolicy()
        policy.schemes.insert("s3")
        policy.addresses = AddressPolicy()
        let url = try #require(URL(string: text))
        #expect(throws: Never.self) { try policy.check(url) }
    }

    @Test func saysWhatIsNotAllowed() throws {
        let policy = URLPolicy(sources: [try SourceRule("example.com")])
        let url = try #require(URL(string: "http://evil.test/a?token=abc&size=3"))
        #expect { try policy.check(url) } throws: { error in
            let message = (error as? ImagePipeline.Error)?.message ?? ""
            return message.contains("http://evil.test/a?… is not") && !message.contains("abc")
        }
    }

    @Test func saysWhatAllowsS3() throws {
        let url = try #require(URL(string: "s3://bucket/a.jpg"))
        #expect { try URLPolicy().check(url) } throws: { error in
            let message = (error as? ImagePipeline.Error)?.message ?? ""
            return message.contains("--credentials") && message.contains("--s3-endpoint")
        }
    }

    @Test(arguments: ["HTTP://example.com/a", "Https://example.com/a", "FILE:///a", "Data:,a"])
    func schemesInUpperCaseAreSchemes(_ text: String) throws {
        try URLPolicy().check(try #require(URL(string: text)))
    }
}
