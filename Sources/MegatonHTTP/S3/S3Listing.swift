internal import Foundation
internal import FoundationNetworking

/// Lists the keys of a bucket with ListObjectsV2, page by page.
package struct S3Listing: Sendable {
    /// One page of keys, in the order of the store.
    package struct Page: Sendable, Equatable {
        /// Keys, not percent-encoded.
        package var keys: [String]
        /// Where the next page begins; nil after the last one.
        package var next: String?
        /// Whether the store has more keys.
        fileprivate var isTruncated = false

        package init(keys: [String], next: String?) {
            self.keys = keys
            self.next = next
        }
    }

    private let loader: any DataLoading
    /// Those of the loader, for messages; nil if they are not known.
    private let credentials: Credentials?
    /// Maximum number of keys of a page.
    private let pageSize: Int

    /// Maximum size of a page, bytes: keys of 1 KiB, percent-encoded, with their other fields.
    private static let sizeLimit = 16 * 1024 * 1024

    /// Creates a listing.
    ///
    /// - Parameters:
    ///   - loader: a ``DataLoader`` whose policy has `s3` among its schemes, or a decorator of one.
    ///   - credentials: those of the loader, for messages.
    ///   - pageSize: number of keys of a page; S3 returns at most 1,000.
    package init(_ loader: any DataLoading, credentials: Credentials? = nil, pageSize: Int = 1000) {
        self.loader = loader
        self.credentials = credentials
        self.pageSize = pageSize
    }

    /// Loads one page.
    ///
    /// - Parameters:
    ///   - token: `next` of the page before; nil for the first one.
    ///   - credential: name of the credential; nil for the one that matches the bucket.
    /// - Throws: an error whose message has the store's reason in words.
    package func page(
        of prefix: S3Prefix,
        after token: String?,
        credential: String? = nil
    ) async throws(ImageError) -> Page {
        var request = URLRequest(url: prefix.url)
        request.credentialName = credential
        request.s3Listing = prefix.query(after: token, count: pageSize)
        let data: Data
        do throws(ImageError) {
            data = try await loader.data(for: request, limit: Self.sizeLimit).data
        } catch {
            throw explained(error, prefix, credential)
        }
        guard let page = Page(answer: data) else {
            throw ImageError(
                .badResponse,
                "\(prefix) cannot be listed: the answer is not a page of ListObjectsV2. Check that --s3-endpoint is "
                    + "the address of an S3 store.",
                isRetryable: false
            )
        }
        // The rest would be taken for absent.
        guard page.next != nil || !page.isTruncated else {
            throw ImageError(
                .badResponse,
                "\(prefix) cannot be listed: the store has more keys, and its answer does not name where they begin. It may "
                    + "not support ListObjectsV2.",
                isRetryable: false
            )
        }
        // A store that repeats itself would be listed for ever.
        guard page.next == nil || page.next != token else {
            throw ImageError(
                .badResponse,
                "\(prefix) cannot be listed: the store returns the same page again and again.",
                isRetryable: false
            )
        }
        return page
    }

    private func explained(_ error: ImageError, _ prefix: S3Prefix, _ credential: String?) -> ImageError {
        let reason = S3Problem.reason(
            of: error,
            bucket: prefix.bucket,
            permission: "s3:ListBucket",
            signing: credentials.map { S3Problem.Signing($0, for: prefix.url, named: credential) } ?? .signed
        )
        var explained = error
        explained.message = FieldProblem.sentence("\(prefix) cannot be listed: \(reason)")
        return explained
    }
}

extension URLRequest {
    /// Carries the query of a listing, and is removed by ``DataLoader``. A header field, because no other custom
    /// property of a `URLRequest` reaches a loader.
    private static let listingField = "Megaton-S3-Listing"

    /// Query with which an `s3:` URL is listed; nil to get the object.
    var s3Listing: String? {
        get { value(forHTTPHeaderField: Self.listingField) }
        set { setValue(newValue, forHTTPHeaderField: Self.listingField) }
    }
}

extension S3Listing.Page {
    /// Maximum length of a key or a token, bytes: keys have 1 KiB, and three times as much percent-encoded.
    private static let textLimit = 64 * 1024

    /// Reads one answer of ListObjectsV2; nil if the data is none.
    fileprivate init?(answer data: Data) {
        var page = S3Listing.Page(keys: [], next: nil)
        var (isEncoded, isListing) = (false, false)
        do throws(XMLElements.Failure) {
            try XMLElements.read(data, textLimit: Self.textLimit) { path, text, _ in
                switch path {
                case ["ListBucketResult", "Contents", "Key"]: page.keys.append(text)
                case ["ListBucketResult", "NextContinuationToken"]: page.next = text.isEmpty ? nil : text
                case ["ListBucketResult", "EncodingType"]: isEncoded = text == "url"
                case ["ListBucketResult", "IsTruncated"]: page.isTruncated = text == "true"
                case ["ListBucketResult"]: isListing = true
                default: break
                }
                return nil
            }
        } catch {
            return nil
        }
        guard isListing else { return nil }
        if isEncoded { page.keys = page.keys.map(Self.decoded) }
        self = page
    }

    /// As forms are encoded: a space may be a plus sign, and a plus sign never is itself.
    private static func decoded(_ key: String) -> String {
        key.replacing("+", with: " ").removingPercentEncoding ?? key
    }
}
