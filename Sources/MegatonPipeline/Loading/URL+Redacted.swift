internal import Foundation

extension URL {
    /// The URL for people and logs: without a user, and without the values of the parameters that signed URLs carry.
    var redacted: String {
        guard user() != nil || password() != nil || query() != nil,
            var parts = URLComponents(url: self, resolvingAgainstBaseURL: true)
        else { return absoluteString }
        parts.user = nil
        parts.password = nil
        parts.percentEncodedQueryItems = parts.percentEncodedQueryItems?.map { item in
            guard item.value != nil, Self.isSecret(item.name.lowercased()) else { return item }
            return URLQueryItem(name: item.name, value: "…".addingPercentEncoding(withAllowedCharacters: []))
        }
        return parts.string?.replacingOccurrences(of: "%E2%80%A6", with: "…") ?? "\(scheme ?? ""):…"
    }

    /// AWS, Google Cloud, Azure and CloudFront, and what others call it.
    private static func isSecret(_ name: String) -> Bool {
        let names: Set<String> = [
            "sig", "signature", "policy", "key-pair-id", "token", "access_token", "auth", "authorization", "apikey",
            "api_key", "key", "secret", "password", "x-amz-signature", "x-amz-credential", "x-amz-security-token",
            "x-goog-signature", "x-goog-credential", "hmac", "jwt",
        ]
        return names.contains(name)
    }
}
