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
    init(_ addresses: AddressPolicy?, _ endpoint: S3Endpoint) {
        self.addresses = addresses
        // The names of buckets are unique in all regions of AWS.
        store = Self.storePrefix + (endpoint.url == nil ? "aws" : endpoint.name.lowercased())
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
