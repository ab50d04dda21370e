internal import Crypto
internal import Foundation

/// Verifies signatures of image URLs: HMAC-SHA256 (RFC 2104, FIPS 180-4) of salt and path, in URL-safe base64, as
/// imgproxy's client libraries compute them.
///
/// Several pairs of key and salt are for rotation: a signature by any of them is valid.
package struct ImageSignature: Sendable {
    private struct Pair: Sendable, CustomReflectable {
        let key: SymmetricKey
        let salt: [UInt8]

        /// A description of a server must not reveal the salt.
        var customMirror: Mirror { Mirror(self, children: []) }
    }

    /// Bytes of a whole signature.
    package static let wholeSize = 32
    private static let maximumPairs = 16
    private static let sizes = 1...1024

    /// Empty if unsigned URLs are allowed.
    private let pairs: [Pair]
    private let size: Int

    /// Whether a signature is required.
    package var isRequired: Bool { !pairs.isEmpty }

    /// - Parameters:
    ///   - keys: Hex digits of a key, or of several, separated by commas; empty for none.
    ///   - salts: The same number of salts.
    ///   - size: Bytes of a signature; only so many of its first bytes are compared.
    ///   - allowsUnsigned: Accepts any signature; only without keys.
    package init(
        keys: String,
        salts: String,
        size: Int = Self.wholeSize,
        allowsUnsigned: Bool = false
    ) throws(ImageSettingsError) {
        guard (1...Self.wholeSize).contains(size) else {
            throw ImageSettingsError("the size of signatures is \(size); allowed are 1 to \(Self.wholeSize) bytes")
        }
        let keys = try Self.list(keys, "key")
        let salts = try Self.list(salts, "salt")
        guard keys.count == salts.count else {
            throw ImageSettingsError(
                "the number of keys (\(keys.count)) is not that of salts (\(salts.count)); each key needs its salt at "
                    + "the same place"
            )
        }
        if keys.isEmpty && !allowsUnsigned {
            throw ImageSettingsError(
                "there is no key to verify signatures with; set a key and a salt, or allow unsigned URLs"
            )
        }
        if !keys.isEmpty && allowsUnsigned {
            throw ImageSettingsError("there is a key, and unsigned URLs are allowed; remove one of both")
        }
        pairs = zip(keys, salts).map { Pair(key: SymmetricKey(data: $0), salt: $1) }
        self.size = size
    }

    /// - Parameters:
    ///   - signature: The first segment of the URL.
    ///   - path: The rest of the path exactly as received, with its leading slash.
    package func verify(_ signature: String, of path: String) throws(ImageURLError) {
        if pairs.isEmpty { return }
        guard let code = Base64URL.decode(signature.utf8), code.count == size else {
            throw ImageURLError(
                .signature,
                "The signature is not \(size) bytes in URL-safe base64 without padding; sign the path after it with "
                    + "the key and salt of this server"
            )
        }
        if !pairs.contains(where: { isValid(code, of: path, by: $0) }) {
            throw ImageURLError(
                .signature,
                "The signature does not belong to this path; sign the path after it, as it is sent, with the key and "
                    + "salt of this server"
            )
        }
    }

    private func isValid(_ code: [UInt8], of path: String, by pair: Pair) -> Bool {
        let text = pair.salt + Array(path.utf8)
        if size == Self.wholeSize {
            return HMAC<SHA256>.isValidAuthenticationCode(code, authenticating: text, using: pair.key)
        }
        let whole = HMAC<SHA256>.authenticationCode(for: text, using: pair.key)
        // All bytes are compared in any case: otherwise the time would show how many are right.
        return zip(whole, code).reduce(0 as UInt8) { $0 | ($1.0 ^ $1.1) } == 0
    }

    private static func list(_ text: String, _ noun: String) throws(ImageSettingsError) -> [[UInt8]] {
        if text.isEmpty { return [] }
        let items = text.utf8.split(separator: UInt8(ascii: ","), omittingEmptySubsequences: false)
        if items.count > maximumPairs {
            throw ImageSettingsError("there are \(items.count) \(noun)s; allowed are \(maximumPairs)")
        }
        var list: [[UInt8]] = []
        for (index, item) in items.enumerated() {
            guard let bytes = Self.bytes(hex: item) else {
                throw ImageSettingsError("\(noun) \(index + 1) is not an even number of hex digits")
            }
            guard sizes.contains(bytes.count) else {
                throw ImageSettingsError(
                    "\(noun) \(index + 1) has \(bytes.count) bytes; allowed are \(sizes.lowerBound) to "
                        + "\(sizes.upperBound)"
                )
            }
            list.append(bytes)
        }
        return list
    }

    private static func bytes(hex: Substring.UTF8View) -> [UInt8]? {
        let digits = hex.compactMap { Character(Unicode.Scalar($0)).hexDigitValue }
        guard digits.count == hex.count, digits.count.isMultiple(of: 2) else { return nil }
        return stride(from: 0, to: digits.count, by: 2).map { UInt8(digits[$0] << 4 | digits[$0 + 1]) }
    }
}
