internal import CVips
internal import Crypto
internal import Foundation
import Synchronization

/// Checks whether a color profile can be applied to its image. A profile that cannot is ignored, as in browsers.
enum ProfileFit {
    /// The reason why the image's profile does not fit; nil if it fits, or if there is no profile.
    static func misfit(of image: VipsImage) -> String? {
        guard let profile = image.profileData else { return nil }
        if let header = misfit(ofHeader: profile, image) { return header }
        let key = Key(
            digest: SHA256.hash(data: profile),
            bands: image.bands,
            interpretation: Int(vips_image_get_interpretation(image.pointer).rawValue),
            format: Int(vips_image_get_format(image.pointer).rawValue)
        )
        if let known = verdicts.withLock({ $0[key] }) { return known.misfit }
        let misfit = tryOut(profile, image)
        verdicts.withLock { verdicts in
            // A fleet sees a handful of profiles, but an untrusted origin can send a new one with every image.
            if verdicts.count >= limit { verdicts.removeAll() }
            verdicts[key] = Verdict(misfit: misfit)
        }
        return misfit
    }

    private struct Key: Hashable {
        let digest: SHA256Digest
        let bands: Int
        let interpretation: Int
        let format: Int
    }

    private struct Verdict {
        let misfit: String?
    }

    private static let verdicts = Mutex<[Key: Verdict]>([:])
    private static let limit = 256

    /// Checks the header of the profile (ICC.1:2010 section 7.2).
    private static func misfit(ofHeader profile: Data, _ image: VipsImage) -> String? {
        let bytes = [UInt8](profile.prefix(128))
        func text(_ range: Range<Int>) -> String { String(decoding: bytes[range], as: UTF8.self) }
        guard bytes.count == 128, text(36..<40) == "acsp" else { return "it is damaged" }
        let length = bytes[0..<4].reduce(0) { $0 << 8 | Int($1) }
        guard length <= profile.count else { return "it is cut off: \(profile.count) of \(length) bytes" }
        if ["link", "abst", "nmcl"].contains(text(12..<16)) { return "it is not the profile of a device" }
        guard let kind = image.colorKind, kind.signature != text(16..<20) else { return nil }
        let named = ["RGB ": "RGB", "GRAY": "gray", "CMYK": "CMYK", "Lab ": "Lab", "XYZ ": "XYZ"]
        return "it is for \(named[text(16..<20)] ?? "other colors"), and the image is \(kind.name)"
    }

    /// Links the profile to see whether that fails. Takes about a millisecond, more for lookup tables, so the result is
    /// cached for each profile and kind of image.
    private static func tryOut(_ profile: Data, _ image: VipsImage) -> String? {
        VipsMessages.collecting {
            let result = profile.withUnsafeBytes { bytes -> Int32 in
                guard let start = bytes.baseAddress else { return -1 }
                return megaton_vips_try_profile(image.pointer, start, bytes.count)
            }
            // For some kinds of images libvips falls back to sRGB if the profile is unusable, and only warns.
            let reason = VipsMessages.text()
            return result == 0 && reason == nil ? nil : reason ?? "it cannot be applied"
        }
    }
}

extension VipsImage {
    /// The color space of its pixels without a profile.
    var plainColors: String {
        if vips_image_get_interpretation(pointer) == VIPS_INTERPRETATION_CMYK { return "CMYK without a profile" }
        return bands < 3 ? "gray" : "sRGB"
    }

    fileprivate var profileData: Data? {
        var bytes: UnsafeRawPointer?
        var length = 0
        guard hasProfile, vips_image_get_blob(pointer, "icc-profile-data", &bytes, &length) == 0, let bytes else {
            return nil
        }
        return Data(bytes: bytes, count: length)
    }

    /// The color space that a profile must match, and its name for messages; nil if only libvips can decide.
    fileprivate var colorKind: (signature: String, name: String)? {
        if isRGB { return ("RGB ", "RGB") }
        return switch vips_image_get_interpretation(pointer) {
        case VIPS_INTERPRETATION_B_W, VIPS_INTERPRETATION_GREY16: ("GRAY", "gray")
        case VIPS_INTERPRETATION_CMYK: ("CMYK", "CMYK")
        default: nil
        }
    }
}
