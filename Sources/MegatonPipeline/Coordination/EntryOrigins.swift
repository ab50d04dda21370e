internal import Foundation
internal import MegatonHTTP

/// The origins from which a process may use cached entries that others have stored.
///
/// An entry names its origin if that is not public: an address, or the store of an `s3:` URL. Two stores may have
/// buckets of the same name, and their objects are not the same.
struct EntryOrigins: Sendable {
    /// Addresses that may be connected to; nil for any.
    private let addresses: AddressPolicy?
    /// The store, as entries name it.
    let store: String

    /// Before the name of a store. No address begins so.
    private static let storePrefix = "s3 "

    /// - Parameter endpoint: the store of `s3:` URLs.
    init(addresses: AddressPolicy?, endpoint: S3Endpoint) {
        self.addresses = addresses
        store = Self.storePrefix + Self.name(of: endpoint)
    }

    /// The same for all ways to write an endpoint.
    private static func name(of endpoint: S3Endpoint) -> String {
        guard let url = endpoint.url, let host = url.host()?.lowercased(), !host.isEmpty else { return aws }
        // The names of buckets are unique in all regions of AWS.
        if host == "amazonaws.com" || host.hasSuffix(".amazonaws.com") { return aws }
        let scheme = url.scheme?.lowercased() ?? ""
        let port = url.port ?? (scheme == "http" ? 80 : 443)
        let path = url.pathComponents.filter { $0 != "/" }.map { "/\($0)" }.joined()
        return "\(host):\(port)\(path)"
    }

    private static let aws = "aws"

    /// Whether an entry is of another store than that of this process.
    func isOfOtherStore(_ address: String?) -> Bool {
        address.map { $0.hasPrefix(Self.storePrefix) && $0 != store } ?? false
    }

    /// Whether this process may use an entry.
    ///
    /// - Parameter address: as the entry names its origin; nil for a public one. Entries of earlier versions name no
    ///   store.
    func permits(_ address: String?) -> Bool {
        guard let address else { return true }
        if address.hasPrefix(Self.storePrefix) { return address == store }
        return addresses?.permitsOrigin(address) ?? true
    }
}

extension CachedData {
    /// Whether a process that may use these origins may use the entry.
    func isPermitted(by origins: EntryOrigins?) -> Bool { origins?.permits(metadata.address) ?? true }
}
