import MegatonPipeline

@testable import MegatonServer

/// Keys and URLs that imgproxy's documentation, tests and client libraries publish.
enum PublishedExample {
    /// "secret" and "hello": https://docs.imgproxy.net/usage/signing_url
    static let key = "736563726574"
    static let salt = "68656C6C6F"
    static let signature = "oKfUtW34Dvo2BGQehJFR4Nr0_rIjOtdtzJ3QFsUcXH8"
    static let path = "/rs:fill:300:400:0/g:sm/aHR0cDovL2V4YW1w/bGUuY29tL2ltYWdl/cy9jdXJpb3NpdHku/anBn.png"
    static let source = "http://example.com/images/curiosity.jpg"

    /// Those of imgproxy's folder `examples`.
    static let exampleKey = "943b421c9eb07c830af81030552c86009268de4e532ba2ee2eab8247c6da0881"
    static let exampleSalt = "520f986b998545b4785e0defbc4f3c1203f22de2374a3d53cb7a7fe9fea309c5"

    static func settings() throws -> ImageURLSettings {
        ImageURLSettings(signature: try ImageSignature(keys: key, salts: salt))
    }
}

extension ImageURLSettings {
    /// Settings that accept any signature.
    static func unsigned(_ presets: [String] = []) throws -> Self {
        Self(
            signature: try ImageSignature(keys: "", salts: "", allowsUnsigned: true),
            presets: try ImagePresets(presets),
            watermark: "logo.png"
        )
    }

    /// The URL with these options and the published source.
    func url(_ options: String, at seconds: Int = 0) throws(ImageURLError) -> ImageURL {
        try ImageURL(path: "/unsafe/\(options)/plain/\(PublishedExample.source)", at: seconds, settings: self)
    }

    func rendition(_ options: String) throws(ImageURLError) -> Rendition {
        try url(options).options.rendition(defaultFormat: .jpeg, settings: self)
    }
}
