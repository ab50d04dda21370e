internal import Foundation

/// Decodes `data:` URLs (RFC 2397).
enum DataURL {
    /// - Throws: `.invalidURL`.
    static func decode(_ url: URL) throws(ImageError) -> Data {
        let text = url.absoluteString.dropFirst("data:".count)
        guard let comma = text.firstIndex(of: ",") else {
            throw ImageError(.invalidURL, "A data: URL needs a comma before its data.")
        }
        let body = text[text.index(after: comma)...]
        guard let plain = String(body).removingPercentEncoding else {
            throw ImageError(.invalidURL, "A data: URL has a broken percent-encoding.")
        }
        guard text[..<comma].lowercased().hasSuffix(";base64") else { return Data(plain.utf8) }
        // Strict (RFC 4648 section 3.3): invalid base64 is an error, and must not look like an empty image.
        guard let data = Data(base64Encoded: plain.filter { !$0.isWhitespace }) else {
            throw ImageError(.invalidURL, "A data: URL has broken base64.")
        }
        return data
    }
}
