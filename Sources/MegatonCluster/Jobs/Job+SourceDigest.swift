internal import Crypto
internal import Foundation

extension Job {
    /// Tells sources apart where their text would be too long: by what name an image is known whose decoding has killed
    /// processes. 16 characters of Base64.
    ///
    /// The credential belongs to it, as an origin may have different images for different callers. Collisions cannot be
    /// made: a list of a stranger must not get the images of others quarantined. A job that only fetches has another name:
    /// that it is done says nothing of the decoder, and must not clear the image of the deaths of other jobs.
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
