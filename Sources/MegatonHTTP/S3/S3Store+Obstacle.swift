internal import Foundation
internal import FoundationNetworking

extension S3Store {
    /// The largest answer about an object that should not exist, bytes.
    private static let probeLimit = 64 * 1024

    /// The reason why no object can be written to a bucket, as far as it shows without a write: the bucket is missing
    /// or in another region, the store rejects the key of the credential, or it cannot be reached. Asks for an object
    /// that need not exist.
    ///
    /// - Parameter location: an object of the bucket.
    /// - Returns: the reason and the remedy, without a period at the end. Nil if a write may succeed: a denied access
    ///   does not count, as a credential that may only write objects is denied the request, too.
    package func obstacle(at location: S3Location) async -> String? {
        let failure: ImageError
        do throws(ImageError) {
            _ = try await loader.data(for: request("GET", location), limit: Self.probeLimit)
            return nil
        } catch {
            failure = error
        }
        guard S3Problem.isFinal(failure) else { return nil }
        return S3Problem.reason(
            of: failure,
            bucket: location.bucket,
            permission: "s3:PutObject",
            signing: S3Problem.Signing(credentials, for: location.url)
        )
    }
}
