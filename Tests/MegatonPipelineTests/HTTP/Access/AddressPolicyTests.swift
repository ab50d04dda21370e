import Foundation
import Testing

@testable import MegatonHTTP
@testable import MegatonPipeline

@Suite struct AddressPolicyTests {
    @Test(arguments: [
        "0.0.0.0", "10.1.2.3", "100.64.0.1", "127.0.0.1", "127.255.255.254", "169.254.169.254", "172.16.0.1",
        "172.31.255.255", "192.168.1.1", "192.0.0.1", "192.0.2.1", "198.18.0.1", "198.51.100.1", "203.0.113.9",
        "224.0.0.1", "240.0.0.1", "255.255.255.255", "::", "::1", "fe80::1", "fec0::1", "fc00::1", "fd12::1", "ff02::1",
        "100::1", "2001:db8::1", "2001:2::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::127.0.0.1", "64:ff9b::7f00:1",
        "64:ff9b:1::a00:1", "2002:7f00:1::", "2002:c0a8:101::1", "2001:0:1:2:3:4:80ff:fffe",
        "2a00:1450::5efe:c0a8:101",
    ])
    func refusesSpecialAddresses(_ text: String) throws {
        let address = try #require(IPAddress(text))
        #expect(AddressPolicy().validationError(address: address, port: 80) != nil)
        #expect(AddressPolicy(allowsPrivate: true).validationError(address: address, port: 8080) == nil)
    }

    @Test(arguments: [
        "8.8.8.8", "1.1.1.1", "100.63.255.255", "100.128.0.1", "172.15.0.1", "172.32.0.1", "169.253.0.1", "192.167.0.1",
        "223.255.255.255", "2606:4700:4700::1111", "2a00:1450:4001:81b::200e", "::ffff:8.8.8.8", "64:ff9b::808:808",
        "2002:808:808::1",
    ])
    func letsPublicAddressesPass(_ text: String) throws {
        let address = try #require(IPAddress(text))
        #expect(AddressPolicy().validationError(address: address, port: 443) == nil)
        #expect(AddressPolicy().validationError(address: address, port: 8443)?.contains("port 8443") == true)
        #expect(AddressPolicy(ports: [8443]).validationError(address: address, port: 8443) == nil)
    }

    @Test(arguments: ["", "1.2.3", "example.org", "1.2.3.4.5", "::g"])
    func readsAddressesOnly(_ text: String) {
        #expect(IPAddress(text) == nil)
    }

    @Test(arguments: [
        ("ftp://example.org/a", ImagePipeline.Error.Code.forbidden), ("example.org/a.jpg", .invalidURL),
        ("http:///a.jpg", .invalidURL), ("http://example.com@evil.test/a.jpg", .forbidden),
        ("https://user:pw@example.org/", .forbidden), ("gopher://x/", .forbidden),
    ])
    func refusesURLs(_ text: String, _ code: ImagePipeline.Error.Code) throws {
        let url = try #require(URL(string: text))
        #expect { try URLPolicy().check(url) } throws: { ($0 as? ImagePipeline.Error)?.code == code }
    }
}
