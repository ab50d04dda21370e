import Foundation
import Testing

@testable import MegatonHTTP

/// One name for all spellings of a host.
struct HostNameTests {
    // Fault: the limits of a host held for each spelling on its own, and a purge missed the other ones.
    @Test(arguments: [
        ("http://origin.example/a", "origin.example"),
        ("HTTPS://Origin.EXAMPLE:8443/a", "origin.example"),
        ("http://%6frigin.ex%41mple/a", "origin.example"),
        ("http://origin.example./a", "origin.example"),
        ("http://user:pw@origin.example/a", "origin.example"),
        ("http://127.0.0.1/a", "127.0.0.1"),
        ("http://127.1/a", "127.0.0.1"),
        ("http://0x7f000001/a", "127.0.0.1"),
        ("http://2130706433:80/a", "127.0.0.1"),
        ("http://[::1]/a", "::1"),
        ("http://[0:0::0:1]:80/a", "::1"),
        ("http://bücher.example/a", "xn--bcher-kva.example"),
        ("http://a_b-c.example/a", "a_b-c.example"),
    ])
    func spellingsOfAHostHaveOneName(_ text: String, _ name: String) throws {
        #expect(HostName.canonical(of: try #require(URL(string: text))) == name)
    }

    /// Usual addresses are not parsed again; others must not be taken for these.
    @Test(arguments: [
        "0.0.0.0", "255.255.255.255", "10.0.200.1", "0177.0.0.1", "01.2.3.4", "1.2.3.08", "1.2.3.256", "1.2.3.4.5",
        "1.2.3", "1..2.3.4", "1.2.3.4.", "1.2.3.4a", "00.0.0.0", "1.2.3.99999999999999999999", "a.1", "1.a",
    ])
    func numbersHaveTheNameThatTheClientConnectsTo(_ host: String) throws {
        let url = try #require(URL(string: "http://\(host)/a"))
        #expect(HostName.canonical(of: url) == URLParts(url)?.host ?? host)
    }

    /// The record of a job separates its fields by these characters.
    @Test(arguments: ["http://a%7Cb.example/a", "http://a%20b.example/", "http://a%0ab.example/"])
    func aNameHasNoOtherCharacters(_ text: String) throws {
        let name = HostName.canonical(of: try #require(URL(string: text)))
        #expect(name.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F } && !name.contains("|"), "\(name)")
    }
}
