internal import Crypto
internal import Foundation

extension Job {
    /// Short digest that identifies an image whose decoding has killed processes, as a source may be long: 16
    /// characters of Base64.
    ///
    /// It includes the credential, as an origin may have different images for different callers. Collisions cannot be
    /// constructed: an untrusted list must not be able to quarantine the images of others. A job that only fetches has
    /// another digest: its success says nothing about the decoder, and must not clear the deaths that other jobs have
    /// counted.
    var sourceDigest: String {
        var hash = SHA256()
        hash.update(data: Data(source.utf8))
        if let credential {
            hash.update(data: Data([0]))
            hash.update(data: Data(credential.utf8))
        }
        if kind == .fetch { hash.update(data: Data([0, 0])) }
        return Data(hash.finalize().prefix(Self.digestBytes)).base64EncodedString()
    }

    /// 12 bytes become 16 characters without padding.
    private static let digestBytes = 12
}
