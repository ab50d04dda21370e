internal import Foundation

/// Which network addresses may be connected to.
///
/// Asked with the address of the socket that is about to connect, after DNS and on each redirect, so that a name which
/// changes its answer gains nothing. The table is the IANA special-purpose registries (RFC 6890), and for IPv6 the
/// forms that carry an IPv4 address within.
public struct AddressPolicy: Sendable, Equatable {
    /// Loopback, private, link-local and all other addresses that are not of the public network.
    public var allowsPrivate: Bool
    /// Ports that may be asked on public addresses.
    public var ports: Set<Int>

    /// Addresses of the kinds above that may be connected to nevertheless.
    public var exceptions: Set<IPAddress> = []

    /// - Parameter ports: 80 and 443 unless told otherwise.
    public init(allowsPrivate: Bool = false, ports: Set<Int> = [80, 443]) {
        self.allowsPrivate = allowsPrivate
        self.ports = ports
    }

    /// Why the address is refused, or nil.
    public func complaint(address: IPAddress, port: Int) -> String? {
        if let special = address.specialPurpose {
            return allowsPrivate || exceptions.contains(address)
                ? nil : "\(address) is \(special); AddressPolicy.allowsPrivate permits such addresses"
        }
        if !ports.contains(port) {
            let allowed = ports.sorted().map(String.init).joined(separator: ", ")
            return "port \(port) is not among those allowed (\(allowed)); add it to AddressPolicy.ports"
        }
        return nil
    }
}
