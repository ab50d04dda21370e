import Testing

@testable import MegatonServer

/// Signatures of image URLs.
@Suite struct ImageSignatureTests {
    private func verifies(_ signature: String, _ path: String, _ signatures: ImageSignature) -> Bool {
        do throws(ImageURLError) {
            try signatures.verify(signature, of: path)
            return true
        } catch {
            #expect(error.reason == .signature && error.status == 403)
            return false
        }
    }

    /// Each has a key, a salt, a signature and a path.
    @Test(
        arguments: [
            // The documentation of imgproxy.
            [PublishedExample.key, PublishedExample.salt, PublishedExample.signature, PublishedExample.path],
            // The folder `examples`, in the older form of paths.
            [
                PublishedExample.exampleKey, PublishedExample.exampleSalt,
                "_PQ4ytCQMMp-1w1m_vP6g8Qb-Q7yF9mwghf6PddqxLw",
                "/fill/300/300/no/1/aHR0cDovL2ltZy5leGFtcGxlLmNvbS9wcmV0dHkvaW1hZ2UuanBn.png",
            ],
            // imgproxy's own tests.
            [
                "746573742d6b6579", "746573742d73616c74", "oWaL7QoW5TsgbuiS9-5-DI8S3Ibbo1gdB2SteJh3a20", "/asd",
            ],
            // Two client libraries.
            [
                "a91bdcda48ce22cd7d8d3a0eda93", "a91bdcda48ce22cd7d8d3a0eda93",
                "TXf2QXtZkU-ULvrg0pLDqJlWUb7XdHkXD0h6NFWD-mo",
                "/rot:90/bl:10/czM6Ly9teWJ1Y2tldC9teWltYWdlLnBuZw",
            ],
            [
                "e99bd6542067de7dac460558ecada3987dd2d18b066180eaa1c3abc66fb22e46"
                    + "3d177ac8f64c93c44d0d78c35adcdda7e0b5f5a116b23ac3d1fa7a305d0727c4",
                "a997d51b78d28ba8c05f39b6e634a044b9551352b105f70a4c0fc4c0eca59827"
                    + "19a33527d0253810273bf4d8b747a261cd4898d3e46916cc57d1de8aac132870",
                "a3eK6TO-pMwXvXtakEZjTov3qDrUoDeGL1Xb_1p-Ue4",
                "/w:400/h:300/rt:fit/L3BhdGgvdG8vaW1hZ2UuanBn",
            ],
            // Computed with Python's hmac module.
            [
                PublishedExample.exampleKey, PublishedExample.exampleSalt,
                "cGLCtXhsgt6WN2feSwzbxOftfbLOdGZwi_iijYVyiIs",
                "/rs:fill:300:300:1/g:no/aHR0cDovL2ltZy5leGFtcGxlLmNvbS9wcmV0dHkvaW1hZ2UuanBn.png",
            ],
            [
                PublishedExample.key, PublishedExample.salt, "xmYoos2QDTa6xQSf_03qVPFbGq7FOT2VNZ90LO1t924",
                "/resize:fill:300:400:0/gravity:sm/plain/http://example.com/images/curiosity.jpg@png",
            ],
        ]
    )
    func publishedSignaturesAreValid(_ example: [String]) throws {
        let signatures = try ImageSignature(keys: example[0], salts: example[1])
        #expect(signatures.isRequired)
        #expect(verifies(example[2], example[3], signatures))
        #expect(!verifies(example[2], example[3] + "x", signatures))
    }

    @Test func eachAlteredByteIsRefused() throws {
        let settings = try PublishedExample.settings()
        let path = Array("/\(PublishedExample.signature)\(PublishedExample.path)".utf8)
        for index in path.indices {
            var altered = path
            altered[index] = altered[index] == UInt8(ascii: "A") ? UInt8(ascii: "B") : UInt8(ascii: "A")
            let text = String(decoding: altered, as: UTF8.self)
            let error = #expect(throws: ImageURLError.self) {
                try ImageURL(path: text, at: 0, settings: settings)
            }
            // Without its first slash it is no path.
            let reason: ImageURLError.Reason = index == 0 ? .path : .signature
            #expect(error?.reason == reason, "\(text)")
        }
    }

    /// The last digit has two bits that belong to no byte.
    @Test(arguments: ["9", "-", "_"]) func anotherSpellingOfASignatureIsRefused(_ digit: String) throws {
        let signatures = try ImageSignature(keys: PublishedExample.key, salts: PublishedExample.salt)
        #expect(!verifies(String(PublishedExample.signature.dropLast()) + digit, PublishedExample.path, signatures))
    }

    @Test(arguments: ["", "unsafe", "=", "oKfUtW34Dvo", PublishedExample.signature + "=", "é", "\u{0}", " "])
    func aTextThatIsNoSignatureIsRefused(_ text: String) throws {
        let signatures = try ImageSignature(keys: PublishedExample.key, salts: PublishedExample.salt)
        #expect(!verifies(text, PublishedExample.path, signatures))
    }

    @Test func signaturesMayBeTruncated() throws {
        let test = try ImageSignature(keys: "746573742d6b6579", salts: "746573742d73616c74", size: 8)
        #expect(verifies("oWaL7QoW5Ts", "/asd", test))
        #expect(!verifies("oWaL7QoW5TsgbuiS9-5-DI8S3Ibbo1gdB2SteJh3a20", "/asd", test))
        #expect(!verifies("oWaL7QoW5Tw", "/asd", test))
        #expect(!verifies("pWaL7QoW5Ts", "/asd", test))
        #expect(!verifies("", "/asd", test))
        let example = try ImageSignature(
            keys: PublishedExample.exampleKey,
            salts: PublishedExample.exampleSalt,
            size: 8
        )
        #expect(verifies("m3k5QADfcKM", "/rs:fit:300:300/plain/http://img.example.com/pretty/image.jpg", example))
    }

    @Test func anyPairOfAListSigns() throws {
        let signatures = try ImageSignature(
            keys: "746573742d6b6579,746573742D6B657932",
            salts: "746573742d73616c74,746573742d73616c7432"
        )
        #expect(verifies("oWaL7QoW5TsgbuiS9-5-DI8S3Ibbo1gdB2SteJh3a20", "/asd", signatures))
        #expect(verifies("jYz1UZ7j1BCdSzH3pZhaYf0iuz0vusoOTdqJsUT6WXI", "/asd", signatures))
        // A key with the salt of the other one.
        let crossed = try ImageSignature(
            keys: "746573742d6b6579,746573742d6b657932",
            salts: "746573742d73616c7432,746573742d73616c74"
        )
        #expect(!verifies("oWaL7QoW5TsgbuiS9-5-DI8S3Ibbo1gdB2SteJh3a20", "/asd", crossed))
    }

    @Test func unsignedURLsNeedNoKeyAndAPermission() throws {
        let open = try ImageSignature(keys: "", salts: "", allowsUnsigned: true)
        #expect(!open.isRequired)
        #expect(verifies("unsafe", "/w:1/plain/x", open) && verifies("_", "/w:1/plain/x", open))
        let missing = #expect(throws: ImageSettingsError.self) { try ImageSignature(keys: "", salts: "") }
        #expect(missing?.description.contains("there is no key") == true)
        let both = #expect(throws: ImageSettingsError.self) {
            try ImageSignature(keys: "00", salts: "00", allowsUnsigned: true)
        }
        #expect(both?.description.contains("unsigned URLs are allowed") == true)
    }

    @Test(
        arguments: [
            ("0g", "00", 32, "key 1 is not"), ("000", "00", 32, "key 1 is not"), ("00", "00,", 32, "salt 2 has 0"),
            ("00,00", "00", 32, "keys (2) is not that of salts (1)"),
            ("00", "", 32, "keys (1) is not that of salts (0)"),
            ("00", "00", 0, "the size of signatures is 0"), ("00", "00", 33, "the size of signatures is 33"),
            (" 00", "00", 32, "key 1 is not"),
        ]
    )
    func settingsThatCannotBeUsedAreErrors(_ keys: String, _ salts: String, _ size: Int, _ message: String) {
        let error = #expect(throws: ImageSettingsError.self) {
            try ImageSignature(keys: keys, salts: salts, size: size)
        }
        #expect(error?.description.contains(message) == true, "\(String(describing: error))")
    }

    @Test func messagesHaveNoKeys() {
        let error = #expect(throws: ImageSettingsError.self) {
            try ImageSignature(keys: "c0ffee0", salts: "00")
        }
        #expect(error?.description.contains("c0ffee") == false)
    }
}
