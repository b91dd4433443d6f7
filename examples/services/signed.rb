# Says whether jobd has sent a request: docs/executors-http.md, Signatures.
require "openssl"

def jobd_signed?(secret, method, path, headers)
  signature = /\At=(\d{1,12}),v1=(\h{64})\z/.match(headers["Jobd-Signature"] || "")
  return false if !signature || (Time.now.to_i - signature[1].to_i).abs > 300
  names = %w[Jobd-Id Jobd-Attempt Jobd-Claim Jobd-Target Jobd-Deadline]
  lines = [signature[1], method, headers["Host"], path, *names.map { |name| headers[name] }]
  mac = OpenSSL::HMAC.hexdigest("SHA256", secret, lines.join("\n"))
  OpenSSL.fixed_length_secure_compare(mac, signature[2].downcase)
end
